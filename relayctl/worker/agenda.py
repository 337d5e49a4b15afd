"""The armed schedules and when each is due next: a heap over named jobs. Knows no broker and no clock.

The cost of a pass depends on what is due, never on what is armed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count, pairwise
from typing import TYPE_CHECKING

from relayctl.core.due import DAY_S, Due, Timeline, due_firings
from relayctl.core.occurrence import from_epoch, occurrence_id
from relayctl.core.timing import jitter_of

if TYPE_CHECKING:
    from relayctl.core.definition import Generation
    from relayctl.core.model import CatchUp

Name = tuple[str, str]
"""App and schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Armed:
    """A schedule to fire: the definitions that may still owe something, and how the app wants it done.

    `settled_until` is the instant (epoch seconds) up to which nothing is owed. `is_whole` says that `generations` are
    all that the registry keeps, so that whatever else was known of them is wrong. `floor` is the registry's own word
    on what is settled, and `pause` what it says of a pause.
    """

    app: str
    schedule: str
    handler: str
    jitter: timedelta
    catch_up: CatchUp
    generations: tuple[Generation, ...]
    settled_until: int
    is_whole: bool = False
    floor: int | None = None
    pause: Pause | None = None

    @property
    def name(self) -> Name:
        """What identifies it."""
        return self.app, self.schedule


@dataclass(frozen=True, slots=True)
class Pause:
    """A span in which nothing is owed, in epoch seconds: from `start` on, and before `until` where it has an end."""

    start: int
    until: int | None = None

    def covers(self, at: int) -> bool:
        """Whether that instant lies in it."""
        return at >= self.start and (self.until is None or at < self.until)

    def outside(self, first: int, last: int) -> tuple[tuple[int, int], ...]:
        """What is left of a range, both ends included."""
        parts = ((first, min(last, self.start - 1)), (max(first, self.until or last + 1), last))
        return tuple(part for part in parts if part[0] <= part[1])

    def trimmed(self, due: Due) -> Due:
        """Without what it covers: that is closed when it ends, and by nobody else."""
        passed = [
            (part, reason)
            for (first, last), reason in zip(due.passed_over, due.passed_because, strict=True)
            for part in self.outside(first, last)
        ]
        return replace(
            due,
            firings=tuple(firing for firing in due.firings if not self.covers(firing[0])),
            passed_over=tuple(part for part, _ in passed),
            passed_because=tuple(reason for _, reason in passed),
        )


@dataclass(slots=True)
class Job:
    """The scheduling state of one schedule. Everything up to `cursor` (epoch seconds) is published or passed over."""

    app: str
    schedule: str
    handler: str
    jitter: timedelta
    catch_up: CatchUp
    timeline: Timeline
    cursor: int
    next_at: int | None = None
    rank: int = 1
    rank_seq: int = -1
    stamp: int = 0
    failures: int = 0
    is_removed: bool = False
    pause: Pause | None = None
    name: Name = field(init=False)

    def __post_init__(self) -> None:
        self.name = (self.app, self.schedule)

    def due_ms(self, at: int) -> int:
        """When the firing of that instant is due: jitter moves it, identity keeps the instant."""
        if not self.jitter:
            return at * 1000
        spread = jitter_of(occurrence_id(self.app, self.schedule, from_epoch(at)), self.jitter)
        return at * 1000 + spread // timedelta(milliseconds=1)

    def following(self) -> int | None:
        """The next instant that will be owed."""
        found = self.timeline.next_after(self.cursor)
        if found is None or self.pause is None or not self.pause.covers(found[0]):
            return None if found is None else found[0]
        if self.pause.until is None:
            return None
        found = self.timeline.next_after(self.pause.until - 1)
        return None if found is None else found[0]

    def take(self, now_ms: int, horizon: int = DAY_S) -> Due:
        """The firings that are due now."""
        now, cursor = now_ms // 1000, self.cursor
        first = None if self.pause is None else self.timeline.next_after(cursor)
        if self.pause is not None and first is not None and self.pause.covers(first[0]):
            # What lies behind the pause must not look like a gap as long as the pause.
            if self.pause.until is None or now < self.pause.until:
                return Due(firings=(), cursor=cursor)
            cursor = self.pause.until - 1
        until, spread = now, 0
        if self.jitter:
            until, spread = self._ripe_until(cursor, now_ms), self._spread_after(cursor)
        due = due_firings(self.timeline, cursor, now, self.catch_up, horizon, until=until, spread=spread)
        return due if self.pause is None else self.pause.trimmed(due)

    def _ripe_until(self, after: int, now_ms: int) -> int:
        """The last second up to which everything is due: jitter is short, so little at the end is not."""
        until = now_ms // 1000
        latest = self.timeline.latest_between(after, until)
        while latest is not None and self.due_ms(latest[0]) > now_ms:
            until = latest[0] - 1
            latest = self.timeline.latest_between(after, until)
        return until

    def _spread_after(self, cursor: int) -> int:
        """How much later than its instant the first firing that is owed is due, in whole seconds."""
        first = self.timeline.next_after(cursor)
        return 0 if first is None else self.due_ms(first[0]) // 1000 - first[0]


class Agenda:
    """Jobs by name, and a heap of (due in ms, job). An entry whose stamp is not its job's is stale and skipped."""

    def __init__(self, delay_ms: Callable[[Job], int]) -> None:
        """`delay_ms` says how long after its due time this worker acts on a job."""
        self._jobs: dict[Name, Job] = {}
        self._heap: list[tuple[int, int, Job, int]] = []
        self._order = count()
        self._delay_ms = delay_ms

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs.values())

    def get(self, name: Name) -> Job | None:
        """The job of that name."""
        return self._jobs.get(name)

    def arm(self, armed: Armed) -> Job:
        """Add a job, or give the one of this name what is new. Unless when it fires changed, its timer stays."""
        job = self._jobs.get(armed.name)
        if job is None:
            job = Job(
                app=armed.app,
                schedule=armed.schedule,
                handler=armed.handler,
                jitter=armed.jitter,
                catch_up=armed.catch_up,
                timeline=Timeline(armed.generations).since(armed.settled_until),
                cursor=armed.settled_until,
                pause=armed.pause,
            )
            self._jobs[armed.name] = job
            self.plan(job)
            return job
        job.handler, job.catch_up = armed.handler, armed.catch_up
        is_same = armed.generations[-1] == job.timeline.generations[-1] and armed.jitter == job.jitter
        job.is_removed = False
        is_moved = armed.floor is not None and armed.floor > job.cursor
        if is_moved or armed.pause != job.pause:
            job.pause, job.cursor = armed.pause, max(job.cursor, armed.floor or job.cursor)
            self.plan(job)
        job.cursor = _begun(job, armed.generations[-1])
        if armed.is_whole:
            job.jitter = armed.jitter
            timeline = Timeline(armed.generations).since(job.cursor)
            if timeline.generations != job.timeline.generations:
                job.timeline = timeline
                self.plan(job)
        elif not is_same:
            job.jitter = armed.jitter
            # The outgoing definition still owes what lies before its end.
            job.timeline = Timeline(_joined(job.timeline.generations, armed.generations)).since(job.cursor)
            self.plan(job)
        return job

    def retire(self, name: Name, end_ms: int) -> None:
        """End a job at that instant; what it owes up to then is still published."""
        job = self._jobs.get(name)
        if job is None:
            return
        *past, head = job.timeline.generations
        job.timeline = Timeline([*past, replace(head, to_ms=end_ms)])
        job.is_removed = True
        self.plan(job)

    def drop(self, name: Name) -> None:
        """Forget a job at once."""
        job = self._jobs.pop(name, None)
        if job is not None:
            job.stamp += 1

    def plan(self, job: Job, not_before_ms: int = 0) -> None:
        """Compute when the job is due next and queue it; a job that owes nothing more is forgotten if removed."""
        job.stamp += 1
        job.next_at = following = job.following()
        if following is None:
            if job.is_removed:
                self._jobs.pop(job.name, None)
            return
        due = max(self.due_ms_here(job, following), not_before_ms)
        heapq.heappush(self._heap, (due, next(self._order), job, job.stamp))

    def due_ms_here(self, job: Job, at: int) -> int:
        """When this worker acts on that firing."""
        return job.due_ms(at) + self._delay_ms(job)

    def pop_due(self, now_ms: int, most: int) -> list[Job]:
        """Up to `most` jobs whose time has come, off the heap."""
        found: list[Job] = []
        while self._heap and len(found) < most:
            due, _, job, stamp = self._heap[0]
            if due > now_ms:
                break
            heapq.heappop(self._heap)
            if stamp == job.stamp:
                found.append(job)
        return found

    def next_due_ms(self) -> int | None:
        """When the next job is due, or None."""
        while self._heap and self._heap[0][3] != self._heap[0][2].stamp:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None


def _begun(job: Job, head: Generation) -> int:
    """The cursor under what is the head now.

    Where the broker's time was set back, a new definition can begin before what was passed over under the one before.
    The registry lets none begin at or before what was published or closed, so all of it is still owed.
    """
    if head.gen <= job.timeline.generations[-1].gen:
        return job.cursor
    return min(job.cursor, -(-head.from_ms // 1000) - 1)


def _joined(old: tuple[Generation, ...], new: tuple[Generation, ...]) -> list[Generation]:
    """Both sets of definitions, each generation once; one that was the head ends where the next begins."""
    if new[-1].gen < old[-1].gen:
        # The registry was lost and counts from the beginning: what was known of it means nothing any more.
        return list(new)
    known = {item.gen: item for item in (*old, *new)}
    ordered = [known[gen] for gen in sorted(known)]
    ended = [
        replace(item, to_ms=following.from_ms) if item.to_ms is None else item for item, following in pairwise(ordered)
    ]
    return [*ended, ordered[-1]]
