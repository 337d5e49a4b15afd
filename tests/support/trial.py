"""Trials: one app on a rig, and a judge of its account that knows only the schedules' text and the times of the edits."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from support.cronwalk import walk

from relayctl.core.occurrence import epoch_seconds
from relayctl.testing import Rig

if TYPE_CHECKING:
    from relayctl.core.record import Record
    from relayctl.store.target import Target

APP = "app"
MOST_ASKED = 40
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
WARM = "def run(event):\n    pass\n"
PROGRAMS = {"run.sh": "cat; echo", "other.sh": "echo other", "fail.sh": "exit 3"}


def at(text: str) -> datetime:
    """An instant from `2026-01-01T12:00` or `2026-01-01T12:00:30`, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What was in force in [`since`, `until`): a cron text in a zone, or `every` so many seconds."""

    since: datetime
    until: datetime
    cron: str = ""
    zone: str = "UTC"
    every: int = 0

    def instants(self) -> list[datetime]:
        low, high = -(-self.since.timestamp() // 1), -(-self.until.timestamp() // 1) - 1
        if self.every:
            first = -(-int(low) // self.every) * self.every
            found: Iterable[int] = range(first, int(high) + 1, self.every)
        else:
            found = walk(self.cron, self.zone, int(low), int(high))
        return [datetime.fromtimestamp(second, UTC) for second in found]


@dataclass(frozen=True, slots=True)
class End:
    """How one expected firing ended."""

    verdict: str
    reason: str = ""
    marks: tuple[str, ...] = ()


RAN = End("succeeded")
CAUGHT_UP = End("succeeded", "", ("caught_up",))
LATE = End("succeeded", "", ("late",))


def passed_over(policy: str) -> End:
    return End("missed", f"catch_up: {policy}")


class Trial:
    """A rig and its one app. `rig` is there for everything else."""

    def __init__(self, now: datetime, target: Target, **options: object) -> None:
        self.rig = Rig(now=now, target=target, is_started=False, **options)  # type: ignore[arg-type]

    @property
    def now(self) -> datetime:
        return self.rig.clock.now()

    @property
    def until(self) -> datetime:
        """Just after now, so that a firing of this very instant is expected."""
        return self.now + timedelta(milliseconds=1)

    def write(self, *schedules: str, tree: Path | None = None, app: str = APP, is_warm: bool = False) -> None:
        """Write the app with these schedules, each the inside of a YAML flow mapping; the handler is run.sh unless named.

        A warm one is in Python: slow to start, quick for many runs.
        """
        folder = (tree or self.rig.tree) / app
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "jobs.py").write_text(WARM)
        for name, body in PROGRAMS.items():
            path = folder / name
            if not path.exists():
                path.write_text(f"#!/bin/sh\n{body}\n")
                path.chmod(0o755)
        runtime, listener, runner = ("python", "jobs.run", "jobs.run") if is_warm else ("exec", "other.sh", "run.sh")
        lines = [f"runtime: {runtime}", f"events: [{{handler: {listener}, pattern: {{kind: [never]}}}}]"]
        if schedules:
            lines.append("schedules:")
        for item in schedules:
            handler = "" if "handler:" in item else f"handler: {runner}, "
            lines.append(f"  - {{{handler}{item}}}")
        (folder / "template.yaml").write_text("\n".join(lines) + "\n")

    def tree(self, name: str) -> Path:
        """Another checkout."""
        return self.rig.tree.parent / name

    def begin(self, *schedules: str, is_warm: bool = False) -> None:
        """Write the app and start a worker on it."""
        self.write(*schedules, is_warm=is_warm)
        self.rig.add_worker()

    def edit(self, *schedules: str) -> None:
        """Write the app anew, and let the workers see it."""
        self.write(*schedules)
        self.rig.reconcile()

    def remove(self, app: str = APP) -> None:
        """Take the app out of the tree, and let the workers see it and wait for quiet."""
        shutil.rmtree(self.rig.tree / app)
        self.rig.reconcile()
        self.rig.advance(timedelta(seconds=3))

    def output(self) -> list[str]:
        """What the handlers printed, in order."""
        return [str(fact.line) for fact in self.rig.told("output")]  # type: ignore[attr-defined]

    def field(self, name: str, schedule: str = "tick") -> str | None:
        """A field of the registry's record."""
        found = self.rig.client.hget(self.rig.keys.schedule(APP, schedule), name)
        return None if found is None else str(found)

    def published_set(self, schedule: str = "tick") -> dict[str, str]:
        return dict(self.rig.client.hgetall(self.rig.keys.published(APP, schedule)))

    def account(self, *rules: Rule, schedule: str = "tick") -> dict[datetime, End]:
        """The verdict of every firing that these rules expect; fails unless each has exactly one, and nothing else has."""
        expected = sorted(instant for rule in rules for instant in rule.instants())
        records = [record for record in self.rig.history(APP, schedule) if record.kind != "manual"]
        ends = judged(expected, records)
        step = max(1, len(expected) // MOST_ASKED)
        for instant in {*expected[::step], *expected[-2:]}:
            why = self.rig.why(APP, schedule, instant)
            assert (why.verdict, why.reason) == (ends[instant].verdict, ends[instant].reason), (
                f"why of {instant}: {why}"
            )
        return ends

    def unexpected(self, instant: datetime, schedule: str = "tick") -> str:
        """Fail unless `why` says that nothing was due at that instant; its words."""
        why = self.rig.why(APP, schedule, instant)
        assert not why.is_expected and not why.verdict, why
        return "; ".join(why.objections)


def judged(expected: Sequence[datetime], records: Sequence[Record]) -> dict[datetime, End]:
    """Exactly one verdict for each expected instant out of these records, or a failure that says what is wrong."""
    runs: dict[datetime, Record] = {}
    closings: list[Record] = []
    for record in records:
        assert record.scheduled_at is not None, record
        if not record.is_run:
            closings.append(record)
            continue
        assert record.scheduled_at not in runs, f"two ends of {record.scheduled_at}"
        runs[record.scheduled_at] = record
    strangers = sorted(runs.keys() - set(expected))
    assert not strangers, f"these ran and were not expected: {strangers[:5]}"
    ends: dict[datetime, End] = {}
    alone = {record.scheduled_at for record in closings if record.first_at is None}
    for instant in expected:
        if instant in runs:
            ends[instant] = End(runs[instant].verdict, runs[instant].reason, runs[instant].marks)
            continue
        covering = [record for record in closings if record.covers(instant)]
        if instant in alone:
            # What has a record of its own keeps it within a range.
            covering = [record for record in covering if record.first_at is None]
        assert len(covering) == 1, f"{instant} has {len(covering)} verdicts: {covering}"
        ends[instant] = End(covering[0].verdict, covering[0].reason)
    for record in closings:
        inside = [instant for instant in expected if record.covers(instant)]
        others = set() if record.first_at is None else alone
        own = [instant for instant in inside if instant in runs or instant in others]
        # An operator's run came before the closing, or replaced it and is counted in it all the same.
        forced = [instant for instant in own if instant in runs and "triggered" in runs[instant].marks]
        assert record.scheduled_at in inside and (record.first_at or record.scheduled_at) in inside, record
        most = len(inside) - len(own) + len(forced)
        assert most - len(forced) <= record.count <= most, f"{record} counts {record.count}, at most {most} are in it"
    return ends


def seconds(instants: Iterable[datetime]) -> list[int]:
    return [epoch_seconds(instant) for instant in instants]
