"""One run from the first worker to the story for the judge: start, hurt, heal, wait until all is settled, look."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

from support.broker import BrokerFactory, PrivateBroker, await_fact
from support.nemesis.apps import Apps, Wanted
from support.nemesis.checker import moment
from support.nemesis.deeds import Controls, Nemesis
from support.nemesis.fleet import Workers
from support.nemesis.plan import Deed
from support.nemesis.record import Observer
from support.nemesis.story import Story

from relayctl.store.connect import connect

UP_WITHIN_S = 60.0
LATENESS_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """What is to be run. `broken` names a deliberate break in the workers, `lateness_s` shortens their minute."""

    wanted: Sequence[Wanted]
    deeds: Sequence[Deed]
    length_s: float
    workers: int = 3
    takes_s: float = 1.5
    emits: bool = True
    broken: str = ""
    lateness_s: float = LATENESS_S
    settles_within_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The story, and what the workers left: exit codes, lines that are no facts, their facts, the nemesis' own log."""

    story: Story
    codes: Sequence[int]
    noise: Sequence[str]
    deeds: Sequence[str]
    facts: Sequence[tuple[str, dict[str, Any]]]

    def told_of(self, text: str) -> list[str]:
        """The facts in which this text occurs, with the worker that told them."""
        return [f"{worker} {json.dumps(fact)}" for worker, fact in self.facts if text in json.dumps(fact)]

    def summary(self) -> str:
        """A few figures."""
        account = self.story.account
        published = sum(len(ledger.published) for ledger in account.ledgers.values())
        closed = sum(
            record.count for ledger in account.ledgers.values() for record in ledger.records if not record.message
        )
        ended = sum(1 for _ in account.runs())
        return (
            f"{published} published, {closed} closed, {ended} ended, {len(account.letters)} dead letters, "
            f"{len(self.story.emitted)} events, {len(self.story.edits)} edits, {len(self.story.pauses)} pauses, "
            f"{len(self.story.troubles)} troubles, {len(self.story.lines)} lines; until {moment(self.story.until)}"
        )


@contextmanager
def private_broker() -> Iterator[tuple[Path, PrivateBroker]]:
    """A directory in memory where there is such a place, and a broker in it.

    A server that waits for a slow disk answers before it has written, and a kill would then lose what it acknowledged:
    the disk's doing, which is not judged here.
    """
    memory = Path("/dev/shm")
    place = memory if memory.is_dir() else None
    root = Path(tempfile.mkdtemp(prefix="rl-", dir=place))
    factory = BrokerFactory(root)
    try:
        yield root, factory("broker")
    finally:
        factory.close()
        rmtree(root, ignore_errors=True)


def perform(play: Play, root: Path, broker: PrivateBroker) -> Result:
    """Run it. Raises AssertionError where the fleet does not come up, or does not settle in the end."""
    begun = time.time()
    apps = Apps(root / "apps", root / "runs.jsonl", play.wanted, takes_s=play.takes_s)
    environ = {}
    if play.broken:
        environ["TEST_BREAK"] = play.broken
    if play.lateness_s != LATENESS_S:
        environ["TEST_LATENESS_S"] = str(play.lateness_s)
    workers = Workers(root, broker, apps.root, play.workers, environ)
    client = connect(broker.target)
    controls = Controls(client, apps)
    rules = [(app, "jobs.on_event") for app in apps.names]
    observer = Observer(Path(str(broker.target.path)), list(apps.wanted), rules, lambda: list(controls.emitted))
    try:
        for seat in workers.seats:
            workers.start(seat)
        _await_up(workers, "the workers do not come up")
        nemesis = Nemesis(play.deeds, workers, broker, apps, controls)
        nemesis.run(play.length_s, emits=play.emits)
        _await_up(workers, "the workers do not come back")
        until = _settled(workers, observer, apps, play.settles_within_s)
        # Before anybody stops: what a stop does is the last of it.
        codes = workers.stop()
        await_fact(observer.look, "the broker does not answer in the end", 10)
        story = Story(
            edits=apps.edits,
            pauses=controls.paused,
            troubles=workers.troubles,
            emitted=controls.emitted,
            triggered=controls.triggered,
            lines=apps.lines(),
            account=observer.account,
            workers=[seat.name for seat in workers.seats],
            pids={pid: seat.name for seat in workers.seats for pid in seat.pids},
            attempts=apps.attempts(),
            faulty=apps.faulty(),
            policies=apps.policies(),
            overlaps=apps.overlaps(),
            begun=begun,
            until=until,
            restless=apps.saves,
            maybe=controls.maybe,
            lateness_s=play.lateness_s,
        )
        facts = [(seat.name, fact) for seat in workers.seats for each in seat.past_and_present for fact in each.facts]
        return Result(story=story, codes=codes, noise=workers.noise(), deeds=nemesis.done, facts=facts)
    finally:
        observer.close()
        workers.close()
        client.close()


def _await_up(workers: Workers, otherwise: str) -> None:
    def is_up() -> bool:
        workers.look()
        return not any(seat.since for seat in workers.seats)

    try:
        await_fact(is_up, otherwise, UP_WITHIN_S)
    except AssertionError as error:
        away = [each.story() for seat in workers.seats if seat.since for each in seat.past_and_present[-1:]]
        raise AssertionError("\n".join([str(error), *away])) from None


def _settled(workers: Workers, observer: Observer, apps: Apps, within_s: float) -> int:
    """Wait until the fleet has come up to now and everything before has ended; the instant up to which that is so.

    What never comes is left for the judge, who says it better than a wait that is over.
    """
    until = int(time.time())

    def is_abreast() -> bool:
        workers.look()
        ledgers = observer.account.ledgers
        return all(
            (ledgers[name].highest or 0) >= until
            for name in apps.wanted
            if apps.every(name) is not None and ledgers[name].generations
        ) and not observer.open_messages(until)

    with suppress(AssertionError):
        await_fact(is_abreast, "the fleet does not settle", within_s)
    return until
