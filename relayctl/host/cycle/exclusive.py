"""One job of a directory at a time, whichever processes of this machine want it, and no demand for it lost.

Who comes by the clock passes when it is busy; who demands leaves a note, and the one at work does it once more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.errors import FileFailure, os_reason
from relayctl.host.cycle.slots import SlotFile
from relayctl.host.lock import FileLock, Holder

if TYPE_CHECKING:
    from relayctl.host.clock import Clock

LOCK_NAME = "cycle.lock"
QUEUE_NAME = "cycle.queue"
MOST_RERUNS = 8
"""So often one holder does it again for others, then the next one has to."""

Job = Callable[[int], None]
"""Does it once; 0 for the caller itself, then counted up for each time on demand of others."""


class Outcome(StrEnum):
    """What became of a call."""

    RAN = "ran"
    RAN_QUEUED = "ran-queued"
    QUEUED = "queued"
    DISCARDED = "discarded"
    SKIPPED = "skipped"
    GATED = "gated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """RAN_QUEUED: also for others, `reruns` times. QUEUED and DISCARDED: one that begins later does it.

    SKIPPED: another was at it. GATED: nothing begins any more. `error` is how the last time failed. `is_deferred` says
    that demands were left for whoever comes next.
    """

    outcome: Outcome
    reruns: int = 0
    error: Exception | None = None
    is_deferred: bool = False


class _Next(Enum):
    """What a holder does after a run: another one, leave, or leave although something is noted."""

    AGAIN = "again"
    DONE = "done"
    DEFER = "defer"


class Exclusive:
    """The job of one directory. What it raises besides what the job does is FileFailure, for a directory of no use.

    Whether the lock is held and what is queued change together, under the lock of the queue: so whoever finds it busy
    has noted a demand that the holder must still see.
    """

    def __init__(
        self,
        directory: Path,
        clock: Clock,
        *,
        command: str = "",
        capacity: int = 1,
        gate: Callable[[], bool] = lambda: True,
    ) -> None:
        """`command` names the holder for people. `gate` is asked before each time; once it says no, none begins."""
        if capacity < 1:
            raise ValueError("a demand needs room for one note at least")
        self._directory = directory
        self._lock = FileLock(directory / LOCK_NAME, clock, command=command)
        self._queue = SlotFile(directory / QUEUE_NAME)
        self._capacity = capacity
        self._gate = gate

    def run(self, job: Job) -> Ending:
        """On demand: do it, or have it done by the one at work, and then return at once."""
        return self._enter(job, is_demand=True)

    def run_or_skip(self, job: Job) -> Ending:
        """By the clock: do it, or leave it where another is at work."""
        return self._enter(job, is_demand=False)

    def visit(self, job: Job) -> Ending:
        """As `run_or_skip`, for a job whose first time serves no demand: whatever is noted stays noted, and counts."""
        return self._enter(job, is_demand=False, is_serving=False)

    def pending(self) -> int:
        """How many demands are noted that no run has begun for."""
        return min(_count(self._queue.read()), self._capacity)

    def holder(self) -> Holder | None:
        """Who is at it, and since when; None where nobody is, or where that is not known."""
        return self._lock.holder() if not self.is_idle() else None

    def is_idle(self) -> bool:
        """Whether nobody is at it now."""
        if not self._directory.is_dir():
            return True
        is_held = False

        def look(before: bytes) -> bytes:
            # A look takes the lock for an instant, and must not make anybody believe that it is busy.
            nonlocal is_held
            is_held = self._lock.is_held()
            return before

        self._queue.mutate(look)
        return not is_held

    def _enter(self, job: Job, *, is_demand: bool, is_serving: bool = True) -> Ending:
        self._make_directory()
        outcome = self._try_enter(is_demand=is_demand, is_serving=is_serving)
        if outcome is not Outcome.RAN:
            return Ending(outcome=outcome)
        try:
            return self._work(job)
        except BaseException:
            # Only here: after an end as it should be, the lock may be another thread's already.
            self._lock.release()
            raise

    def _try_enter(self, *, is_demand: bool, is_serving: bool) -> Outcome:
        outcome: Outcome | None = None

        def enter(before: bytes) -> bytes:
            nonlocal outcome
            if not self._lock.try_acquire():
                noted = min(_count(before), self._capacity)
                if not is_demand:
                    outcome = Outcome.SKIPPED
                elif noted < self._capacity:
                    outcome = Outcome.QUEUED
                    return _noted(noted + 1)
                else:
                    outcome = Outcome.DISCARDED
                return before
            if not self._gate():
                self._lock.release()
                outcome = Outcome.GATED
                return before
            outcome = Outcome.RAN
            # The run that begins now serves whatever was noted before, also what a holder that died has left.
            return b"" if is_serving else before

        try:
            self._queue.mutate(enter)
        except BaseException:
            if outcome is Outcome.RAN:
                self._lock.release()
            raise
        assert outcome is not None
        return outcome

    def _work(self, job: Job) -> Ending:
        reruns, error = 0, self._once(job, 0)
        while (next_step := self._next_step(reruns)) is _Next.AGAIN:
            reruns += 1
            error = self._once(job, reruns)
        outcome = Outcome.RAN_QUEUED if reruns else Outcome.RAN
        return Ending(outcome=outcome, reruns=reruns, error=error, is_deferred=next_step is _Next.DEFER)

    def _next_step(self, reruns: int) -> _Next:
        """Take a demand, or give up the lock in the same step, so that none comes in between."""
        step = _Next.DONE

        def decide(before: bytes) -> bytes:
            nonlocal step
            noted = min(_count(before), self._capacity)
            if noted and reruns < MOST_RERUNS and self._gate():
                step = _Next.AGAIN
                return _noted(noted - 1)
            step = _Next.DEFER if noted else _Next.DONE
            self._lock.release()
            return before

        self._queue.mutate(decide)
        return step

    def _make_directory(self) -> None:
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise FileFailure(
                f"{self._directory} cannot be made: {os_reason(error)}", help="check the owner and the free space there"
            ) from error

    def _once(self, job: Job, number: int) -> Exception | None:
        try:
            job(number)
        except Exception as error:  # noqa: BLE001  others are owed a run whatever becomes of this one
            return error
        return None


def _count(data: bytes) -> int:
    """How many are noted. What makes no sense is one: a run too many is better than a demand that is lost."""
    if not data:
        return 0
    return int(data) if data.isdigit() and len(data) <= 6 else 1


def _noted(count: int) -> bytes:
    return b"%d" % count if count else b""
