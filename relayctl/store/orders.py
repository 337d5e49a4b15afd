"""Orders of operators by the names of schedules: what they find, what they refuse, and how what they started ended.

The steps themselves are `controls`, `dead_letters` and `stream`; here a name is looked up and an answer made of theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from relayctl.core.definition import TOMBSTONE, Firing
from relayctl.core.description import Description
from relayctl.core.due import Timeline
from relayctl.core.lifecycle import Kind, Slot
from relayctl.core.manual import ManualRun, is_manual_key
from relayctl.core.occurrence import Occurrence, epoch_seconds, from_epoch, instant_text
from relayctl.errors import BrokerError, Refused, UnknownTarget, UsageError
from relayctl.store.controls import Controls, ControlVerdict
from relayctl.store.dead_letters import DeadLetters, LetterVerdict
from relayctl.store.definitions import Definitions, Head
from relayctl.store.failure import translate
from relayctl.store.fleet import LIVE_MS, Fleet, WorkerRecord
from relayctl.store.moves import Moves
from relayctl.store.replicas import Replicas
from relayctl.store.stream import PublishVerdict, Stream

if TYPE_CHECKING:
    import redis

    from relayctl.core.deadletter import DeadLetter
    from relayctl.store.keys import Keys

_LONG_AGO = -(1 << 62)
_MOST_RECORDS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """A pause in force from `paused_at` on; `is_new` is False where the schedule was paused before."""

    app: str
    schedule: str
    paused_at: datetime
    until: datetime | None
    by: str
    reason: str
    is_new: bool
    replicated: bool | None = None
    """Whether as many replicas hold it as the settings want; None where they want none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """A schedule that goes on. `paused` counts the firings its pause covered, `missed` what had stood open before it.

    `was_paused` is False where there was nothing to end.
    """

    app: str
    schedule: str
    was_paused: bool
    paused: int
    missed: int
    next_at: datetime | None
    replicated: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A run that was asked for: its id and message. `is_new` is False where the same demand had started it before."""

    app: str
    slot: Slot
    id: str
    message: str
    is_new: bool
    replicated: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """How far a run is: `waiting`, `running`, `retrying`, or the verdict that ended it, with the record of its end."""

    state: str
    attempts: int
    record: Mapping[str, str]

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state not in {"waiting", "running", "retrying"}


class Orders:
    """Orders over one client. They raise UnknownTarget, Refused, UsageError, BrokerUnavailable or BrokerRefused."""

    def __init__(self, client: redis.Redis, keys: Keys, acks: int = 0) -> None:
        """`acks` is how many replicas an order waits for."""
        self._replicas = Replicas(client, keys, acks)
        self._client = client
        self._keys = keys
        self._definitions = Definitions(client, keys)
        self._controls = Controls(client, keys, self._wants_verdicts)
        self._letters = DeadLetters(client, keys)

    def now(self) -> datetime:
        """The broker's time."""
        with translate():
            seconds, micros = self._client.time()
        return datetime.fromtimestamp(int(seconds), UTC) + timedelta(microseconds=int(micros))

    # Pauses

    def pause(self, app: str, schedule: str, *, until: datetime | None, by: str, reason: str) -> Paused:
        """Pause a schedule from the next whole second on."""
        self._head(app, schedule)
        if until is not None and until <= self.now():
            raise UsageError(f"the pause would end at {instant_text(until)}, which is over", help="--until now+2h")
        end = None if until is None else epoch_seconds(until)
        verdict, beginning = self._controls.pause(app, schedule, until=end, by=by, reason=reason)
        if verdict is ControlVerdict.FOREIGN:
            raise _foreign(app, schedule)
        if beginning is None:
            raise self._unknown(app, schedule)
        return Paused(
            app=app,
            schedule=schedule,
            paused_at=from_epoch(beginning),
            until=until,
            by=by,
            reason=reason,
            is_new=verdict is ControlVerdict.PAUSED,
            replicated=self._replicas.confirm(),
        )

    def resume(self, app: str, schedule: str, *, by: str) -> Resumed:
        """End a schedule's pause; what it covered stays undone."""
        head = self._head(app, schedule, to_resume=True)
        answer = self._controls.resume(app, schedule, by=by)
        if answer.verdict is ControlVerdict.FOREIGN:
            raise _foreign(app, schedule)
        trigger = Firing.from_spec(head.spec).trigger
        return Resumed(
            app=app,
            schedule=schedule,
            was_paused=answer.verdict is ControlVerdict.RESUMED,
            paused=answer.paused,
            missed=answer.missed,
            next_at=None if trigger is None else trigger.next_after(self.now()),
            replicated=self._replicas.confirm(),
        )

    # Runs by hand

    def trigger(self, app: str, schedule: str, *, key: str, by: str) -> Started:
        """Run a schedule now, out of band, once per key."""
        if not is_manual_key(key):
            raise UsageError(
                f"not a key: {key!a}", help="letters, digits, '.', '_' and '-', at most 64, a letter or digit first"
            )
        self._head(app, schedule)
        run = ManualRun(app=app, schedule=schedule, key=key, asked_at=self.now().replace(microsecond=0), by=by)
        verdict, message = self._controls.trigger(run)
        if verdict is ControlVerdict.UNKNOWN:
            raise self._unknown(app, schedule)
        return Started(
            app=app,
            slot=Slot.of_manual(schedule),
            id=run.id,
            message=message,
            is_new=verdict is ControlVerdict.ACCEPTED,
            replicated=self._replicas.confirm(),
        )

    def trigger_slot(self, app: str, schedule: str, wanted: datetime | str, *, by: str, token: str) -> Started:
        """Publish one occurrence of a schedule now: `next`, `latest`, or that of an instant."""
        self._head(app, schedule)
        timeline = Timeline(self._definitions.generations(app, schedule))
        if not timeline.is_comparable:
            raise _foreign(app, schedule)
        at, gen = self._firing(app, schedule, timeline, wanted)
        occurrence = Occurrence(
            app=app,
            schedule=schedule,
            handler=self._handler(app, schedule),
            scheduled_at=from_epoch(at),
            gen=gen,
            by=by,
            marks=("triggered",),
        )
        [(_, answer)] = Stream(self._client, self._keys).publish([occurrence], token, is_explicit=True)
        if isinstance(answer, BrokerError):
            raise answer
        if answer.verdict not in {PublishVerdict.PUBLISHED, PublishVerdict.DUPLICATE}:
            raise Refused(f"{occurrence.id} cannot be published: {_WHY_NOT[answer.verdict]}", help=_INSTEAD)
        return Started(
            app=app,
            slot=Slot.of_schedule(schedule),
            id=occurrence.id,
            message=answer.entry,
            is_new=answer.verdict is PublishVerdict.PUBLISHED,
            replicated=self._replicas.confirm(),
        )

    def state_of(self, started: Started) -> RunState:
        """How far a run is. One whose traces are gone is `forgotten`."""
        # A run goes from the stream into its hash: asked for in that order, it cannot slip by between the questions.
        with translate():
            is_there = bool(self._client.xrange(self._keys.events, started.message, started.message))
            text: Any = self._client.hget(
                self._keys.invocations(started.message), f"s:{started.app}|{started.slot.text}"
            )
        if text is None:
            record = self._record(started)
            if record:
                return RunState(state=record.get("verdict", ""), attempts=_number(record), record=record)
            return RunState(state="waiting" if is_there else "forgotten", attempts=0, record={})
        state, attempts, _ = text.split("|", 2)
        if state == "claimed":
            return RunState(state="running", attempts=int(attempts), record={})
        if state == "ready":
            return RunState(state="retrying" if int(attempts) else "waiting", attempts=int(attempts), record={})
        return RunState(state=state, attempts=int(attempts), record=self._record(started))

    # Dead letters

    def letter(self, entry: str) -> DeadLetter:
        """One dead letter."""
        found = self._letters.get(entry) if _is_entry_id(entry) else None
        if found is None:
            raise UnknownTarget(f'no dead letter "{entry}"', help="relayctl dlq ls")
        return found

    def replay(self, entry: str, *, by: str) -> Started:
        """Let a dead letter's invocation run again under the template that is live now."""
        letter = self.letter(entry)
        self._check_replayable(letter)
        verdict, message = self._letters.replay(entry, ("by", by))
        if verdict is LetterVerdict.RUNNING:
            raise Refused(
                f"dead letter {entry} is being replayed as message {message}", help=f"relayctl dlq show {entry}"
            )
        if verdict is not LetterVerdict.REPLAYED:
            raise Refused(f"dead letter {entry} cannot be replayed", help=f"relayctl dlq show {entry}")
        return Started(
            app=letter.app,
            slot=Slot(letter.slot),
            id=letter.target,
            message=message,
            is_new=True,
            replicated=self._replicas.confirm(),
        )

    def remove(self, entry: str) -> None:
        """Take a dead letter out for good."""
        self.letter(entry)
        verdict, message = self._letters.remove(entry)
        if verdict is LetterVerdict.RUNNING:
            raise Refused(f"dead letter {entry} is being replayed as message {message}", help="wait for its end")

    def _check_replayable(self, letter: DeadLetter) -> None:
        if letter.is_newer:
            raise Refused(
                f"dead letter {letter.id} was written by a newer relayctl", help="replay it with that version"
            )
        if not letter.is_replayable:
            raise Refused(
                f"dead letter {letter.id} cannot be replayed: {letter.reason}, and only its beginning was kept",
                help="send the event again in a sound form: relayctl emit FILE",
            )
        reports = self._reports(letter.app)
        if letter.schedule:
            head = self._definitions.heads([(letter.app, letter.schedule)]).get((letter.app, letter.schedule))
            if head is None or head.hash == TOMBSTONE:
                raise Refused(
                    f"{letter.app}/{letter.schedule} is gone, so dead letter {letter.id} has nothing to run",
                    help=f"relayctl dlq rm {letter.id}",
                )
        elif not reports:
            raise Refused(f"no live worker has app {letter.app}", help="start one, then replay it again")
        elif not any(letter.handler in report.events for report in reports):
            raise Refused(
                f"no event rule of {letter.app} has the handler {letter.handler} any more",
                help=f"relayctl dlq rm {letter.id}",
            )

    # Looking things up

    def _head(self, app: str, schedule: str, *, to_resume: bool = False) -> Head:
        head = self._definitions.heads([(app, schedule)]).get((app, schedule))
        if head is None or head.hash == TOMBSTONE:
            raise self._unknown(app, schedule)
        is_disabled = json.loads(head.spec).get("enabled") is False
        # What was paused before it was disabled has firings that only the end of the pause accounts for.
        if is_disabled and not (to_resume and head.paused_at is not None):
            raise Refused(
                f"{app}/{schedule} is disabled by its template", help="take enabled: false out of the template"
            )
        return head

    def _unknown(self, app: str, schedule: str) -> UnknownTarget:
        home = Moves(self._client, self._keys).homes([(app, schedule)]).get((app, schedule))
        if home is not None:
            return UnknownTarget(f'"{app}/{schedule}" was moved', help=f"it goes on as {'/'.join(home)}")
        names = [f"{each}/{name}" for each, name in sorted(self._definitions.all_names())]
        return UnknownTarget(f'no schedule "{app}/{schedule}" runs', help=_nearest(f"{app}/{schedule}", names))

    def _firing(self, app: str, schedule: str, timeline: Timeline, wanted: datetime | str) -> tuple[int, int]:
        now = epoch_seconds(self.now())
        if wanted == "next":
            found = timeline.next_after(now)
        elif wanted == "latest":
            found = timeline.latest_between(_LONG_AGO, now)
        else:
            assert isinstance(wanted, datetime)
            at = epoch_seconds(wanted)
            found = timeline.next_after(at - 1, at)
            if found is None:
                raise Refused(f"{app}/{schedule} does not fire at {instant_text(wanted)}", help=_around(timeline, at))
        if found is None:
            raise Refused(f"{app}/{schedule} has no {wanted} firing", help=f"relayctl inspect {app}/{schedule}")
        return found[0], found[1].gen

    def _live(self) -> list[WorkerRecord]:
        now_ms = self.now().timestamp() * 1000
        return [record for record in Fleet(self._client, self._keys).records() if now_ms - record.beat_ms < LIVE_MS]

    def _wants_verdicts(self) -> bool:
        return any(record.wants_verdicts for record in self._live())

    def _reports(self, app: str) -> list[Description]:
        running = Fleet(self._client, self._keys).running(record.id for record in self._live())
        return [apps[app] for apps in running.values() if app in apps]

    def _handler(self, app: str, schedule: str) -> str:
        # Information only: what runs is decided at admission.
        found = (report.schedules.get(schedule, {}).get("handler") for report in self._reports(app))
        return next((handler for handler in found if handler), "unknown")

    def _record(self, started: Started) -> Mapping[str, str]:
        key = (
            self._keys.history_of_handler(started.app, started.slot.text)
            if started.slot.kind is Kind.EVENT
            else self._keys.history_of_schedule(started.app, str(started.slot.schedule))
        )
        with translate():
            entries: Any = self._client.xrevrange(key, count=_MOST_RECORDS)
        return next((fields for _, fields in entries if fields.get("message") == started.message), {})


_WHY_NOT = {
    PublishVerdict.SETTLED: "it is settled, and no closing of it as missed or paused is on record",
    PublishVerdict.STALE: "its definition was not in force at that instant",
    PublishVerdict.UNKNOWN: "its definition is not known any more",
}
_INSTEAD = "a run that is no firing is always possible: leave --slot out"


def _foreign(app: str, schedule: str) -> Refused:
    return Refused(
        f"the fleet's definition of {app}/{schedule} rests on another evaluator or other zone data than here",
        help="run this where relayctl and its zone data are those of the workers",
    )


def _around(timeline: Timeline, at: int) -> str:
    before, after = timeline.latest_between(_LONG_AGO, at - 1), timeline.next_after(at)
    near = [instant_text(from_epoch(item[0])) for item in (before, after) if item is not None]
    are = "firing is" if len(near) == 1 else "firings are"
    return f"the nearest {are} {' and '.join(near)}" if near else "it has no firings at all"


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f'did you mean "{close[0]}"?'
    return "relayctl status lists what runs" if names else "nothing runs here yet: relayctl serve"


def _is_entry_id(text: str) -> bool:
    ms, dash, number = text.partition("-")
    return bool(dash) and text.isascii() and ms.isdecimal() and number.isdecimal() and len(text) <= 40


def _number(record: Mapping[str, str]) -> int:
    return int(record.get("attempts") or 0)
