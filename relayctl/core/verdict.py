"""What became of one firing: expected or not and why, published by whom, ended how, or where it is now. Judges only.

It is handed everything that is known; asking the broker is the business of `store.history`, words that of `render.why`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum

from relayctl.core.account import OVERDUE_AFTER_S, Recorded
from relayctl.core.cron import Cron, Every
from relayctl.core.crongrammar import FIELDS, read_expression
from relayctl.core.definition import TOMBSTONE, Firing, Generation
from relayctl.core.due import Timeline
from relayctl.core.duration import format_duration
from relayctl.core.forecast import zone_of
from relayctl.core.occurrence import epoch_seconds, from_epoch
from relayctl.core.record import Record

_DAY = timedelta(days=1)


class State(Enum):
    """Where a firing stands."""

    NOT_EXPECTED = "not expected"
    UNJUDGED = "cannot be judged"  # its definition rests on another evaluator or other zone data
    AHEAD = "ahead"
    DUE = "due"
    OVERDUE = "overdue"
    PAUSED = "paused"  # a pause that goes on covers it
    PUBLISHED = "published"  # in the stream, not routed yet
    WAITING = "waiting"
    RETRYING = "retrying"
    RUNNING = "running"
    ENDED = "ended"
    CLOSED = "closed"
    SETTLED = "settled"  # published or closed, and no record of it is kept any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """A published firing that has not ended: its invocation's state, None while its entry is not routed yet.

    `attempts` counts those made, `due_at` is when the next may begin, `token` names the claim. Of one that a newer
    relayctl wrote (`is_newer`) nothing else is known here. No live worker can run it since `stranded_since`, if given.
    """

    state: str | None
    attempts: int = 0
    attempts_allowed: int = 0
    due_at: datetime | None = None
    token: str = ""
    is_newer: bool = False
    stranded_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is known of one schedule at `now`. `workers` are the ids of the live ones; `live` is by message."""

    app: str
    schedule: str
    now: datetime
    generations: Sequence[Generation]
    floor: int | None
    paused_at: datetime | None
    recorded: Recorded
    records: Sequence[Record]
    live: Mapping[str, Live]
    workers: Sequence[str]
    jitter: timedelta = timedelta(0)
    paused_until: datetime | None = None
    newer_records: int = 0
    """Records of a newer relayctl, which may speak of any of its firings."""

    @property
    def timeline(self) -> Timeline:
        """The definitions in force, oldest first."""
        return Timeline(self.generations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What became of the firing at `at`.

    `generation` was in force then. `objections` say why it is no firing. `before` and `after` are the nearest firings.
    """

    at: datetime
    state: State
    generation: Generation | None = None
    objections: tuple[str, ...] = ()
    before: datetime | None = None
    after: datetime | None = None
    verdict: str = ""
    reason: str = ""
    message: str = ""
    published_at: datetime | None = None
    by: str = ""
    worker: str = ""
    record: Record | None = None
    live: Live | None = None
    paused_at: datetime | None = None
    replaced: Record | None = None
    """The closing that an operator's explicit act replaced."""
    newer_records: int = 0

    @property
    def is_expected(self) -> bool:
        """Whether a firing was due at that instant."""
        return self.state not in {State.NOT_EXPECTED, State.UNJUDGED}

    @property
    def is_awaited(self) -> bool:
        """Whether it is still to be published. What a pause covers ends as paused."""
        return self.state in {State.AHEAD, State.DUE, State.OVERDUE}


def judge(evidence: Evidence, at: datetime) -> Judgement:
    """Judge the firing of this instant, a whole second."""
    second = epoch_seconds(at)
    timeline = evidence.timeline
    before, after = timeline.latest_between(-1, second - 1), timeline.next_after(second)
    found = Judgement(
        at=at,
        state=State.NOT_EXPECTED,
        generation=generation_at(evidence.generations, at),
        before=None if before is None else from_epoch(before[0]),
        after=None if after is None else from_epoch(after[0]),
        newer_records=evidence.newer_records,
    )
    told = [record for record in evidence.records if record.covers(at)]
    # A replay does not undo a verdict: the first end stays, marked.
    runs = sorted((record for record in told if record.is_run), key=lambda record: "replayed" in record.marks)
    run = runs[0] if runs else None
    if run is not None and "replayed" in runs[-1].marks and "replayed" not in run.marks:
        run = replace(run, marks=(*run.marks, "replayed"))
    closing = next((record for record in told if not record.is_run), None)
    value = evidence.recorded.value_at(second) or ""
    if value.startswith("p|"):
        return _published(evidence, found, value, run, closing)
    if run is not None:
        return _ended(found, run, closing)
    if (value or closing is not None) and str(second) not in evidence.recorded.fields:
        # A range speaks of the firings in it, not of what lies between them.
        objections = _objections_to(evidence, found)
        if objections:
            return replace(found, objections=objections)
    if value.startswith("c|"):
        _, verdict, reason = (*value.split("|", 2), "", "")[:3]
        return replace(found, state=State.CLOSED, verdict=verdict, reason=reason, record=closing)
    if closing is not None:
        return replace(found, state=State.CLOSED, verdict=closing.verdict, reason=closing.reason, record=closing)
    return _unrecorded(evidence, found, second)


def generation_at(generations: Sequence[Generation], at: datetime) -> Generation | None:
    """The definition that was in force at this instant."""
    at_ms = epoch_seconds(at) * 1000
    return next(
        (item for item in generations if item.from_ms <= at_ms and (item.to_ms is None or at_ms < item.to_ms)), None
    )


def _published(
    evidence: Evidence, found: Judgement, value: str, run: Record | None, closing: Record | None
) -> Judgement:
    _, token, message = (*value.split("|", 2), "", "")[:3]
    if run is not None and run.message == message:
        return _ended(found, run, closing)
    live = evidence.live.get(message)
    published = Record(recorded_at=found.at, verdict="", message=message)
    known = replace(
        found,
        message=message,
        published_at=published.published_at,
        by=_worker_of(token, evidence.workers),
        live=live,
        replaced=closing,
    )
    if live is None:
        # Its end is recorded in the same step that lets go of it, so the record has aged out.
        return _ended(known, run, closing) if run is not None else replace(known, state=State.SETTLED)
    state = {
        None: State.PUBLISHED,
        "ready": State.RETRYING if live.attempts else State.WAITING,
        "waiting": State.WAITING,
        "claimed": State.RUNNING,
    }.get(live.state)
    if state is None:
        return replace(known, state=State.ENDED, verdict=live.state or "")
    return replace(known, state=state, worker=_worker_of(live.token, evidence.workers))


def _ended(found: Judgement, run: Record, closing: Record | None) -> Judgement:
    return replace(
        found,
        state=State.ENDED,
        verdict=run.verdict,
        reason=run.reason,
        message=run.message,
        published_at=run.published_at,
        by=run.by or found.by,
        worker=run.worker,
        record=run,
        replaced=closing,
    )


def _unrecorded(evidence: Evidence, found: Judgement, second: int) -> Judgement:
    generation = found.generation
    if generation is not None and not Firing.from_spec(generation.spec).is_comparable:
        return replace(found, state=State.UNJUDGED)
    objections = why_not(evidence.generations, found.at)
    if objections:
        return replace(found, objections=objections)
    if found.at > evidence.now:
        return replace(found, state=State.AHEAD, paused_at=evidence.paused_at)
    if evidence.floor is not None and second <= evidence.floor:
        return replace(found, state=State.SETTLED)
    is_paused = evidence.paused_at is not None and evidence.paused_at <= found.at
    if is_paused and (evidence.paused_until is None or found.at < evidence.paused_until):
        return replace(found, state=State.PAUSED, paused_at=evidence.paused_at)
    is_late = evidence.now - found.at > timedelta(seconds=OVERDUE_AFTER_S) + evidence.jitter
    return replace(found, state=State.OVERDUE if is_late else State.DUE)


def _objections_to(evidence: Evidence, found: Judgement) -> tuple[str, ...]:
    """Why no firing was due at that instant; nothing where its definition is unknown by now, or not ours to judge."""
    if found.generation is None or not Firing.from_spec(found.generation.spec).is_comparable:
        return ()
    return why_not(evidence.generations, found.at)


def _worker_of(token: str, workers: Sequence[str]) -> str:
    """The live worker of this token; of one that is gone only the token is known."""
    process = token.partition(".")[0]
    return next((worker for worker in workers if process and worker.endswith(f"-{process}")), process)


# Why an instant is no firing


def why_not(generations: Sequence[Generation], at: datetime) -> tuple[str, ...]:
    """Why the schedule was not to fire at this instant, in words; empty where it was."""
    generation = generation_at(generations, at)
    if generation is None:
        if not generations:
            return ("nothing is known of the schedule",)
        oldest = min(generations, key=lambda item: item.gen)
        began = from_epoch(oldest.from_ms // 1000)
        what = "it had no definition yet: the first" if oldest.gen == 1 else "the oldest definition that is kept"
        return (f"{what} is in force since {began:%Y-%m-%d %H:%M:%S}Z",)
    if generation.hash == TOMBSTONE:
        return (f"the schedule was removed at {from_epoch(generation.from_ms // 1000):%Y-%m-%d %H:%M:%S}Z",)
    trigger = Firing.from_spec(generation.spec).trigger
    if trigger is None:
        return ("the schedule was disabled then (enabled: false)",)
    if trigger.is_firing_s(epoch_seconds(at)) and not at.microsecond:
        return ()
    return _off_beat(trigger, at) if isinstance(trigger, Every) else _mismatches(trigger, at)


def _off_beat(trigger: Every, at: datetime) -> tuple[str, ...]:
    past = timedelta(seconds=epoch_seconds(at) % trigger.seconds)
    return (f"it lies {format_duration(past)} after a whole multiple of {trigger.words.removeprefix('every ')}",)


def _mismatches(trigger: Cron, at: datetime) -> tuple[str, ...]:
    wall = at.astimezone(zone_of(trigger))
    if wall.second or wall.microsecond:
        return (f"cron fires at whole minutes, and this is {wall.second} s after one",)
    shifted = _shifted(trigger, at, wall)
    if shifted:
        return (shifted,)
    minute, hour, day, month, weekday = read_expression(trigger.canonical)
    values = (wall.minute, wall.hour, wall.day, wall.month, wall.isoweekday() % 7)
    fits = [
        bool(field.mask >> value & 1) for field, value in zip((minute, hour, day, month, weekday), values, strict=True)
    ]
    if not (day.is_star or weekday.is_star) and (fits[2] or fits[4]):
        # With both day fields restricted either may match.
        fits[2] = fits[4] = True
    words = trigger.canonical.split()
    found = tuple(
        f"{kind.name} is {value}, and the schedule wants {word}"
        for kind, value, word, is_fit in zip(FIELDS, values, words, fits, strict=True)
        if not is_fit
    )
    return found or (f"the clock was changed near {wall:%H:%M}, and this pass of it does not count",)


def _shifted(trigger: Cron, at: datetime, wall: datetime) -> str:
    """What a change of the clock has to do with it; empty where nothing."""
    for effect in trigger.transitions_affecting(at - _DAY, at + _DAY):
        if at in effect.silent_at:
            return f"the clock went back, and {wall:%H:%M} had its firing in the first pass (dst.fold: first)"
        if effect.on == wall.date() and not effect.fires_at and not _fires_on_day_of(trigger, wall):
            missing = effect.walls[0].partition("T")[2]
            return f"the clock goes forward on that day: it has no {missing}, and nothing fires in its place"
    return ""


def _fires_on_day_of(trigger: Cron, wall: datetime) -> bool:
    begin = wall.replace(hour=0, minute=0, fold=0)
    last = trigger.latest_at_or_before((begin + _DAY).astimezone(UTC) - timedelta(seconds=1))
    return last is not None and last >= begin
