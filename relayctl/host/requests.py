"""Accepted work in order: a bounded first-in-first-out queue, one executor, exactly one result for each request.

It knows no socket and no work of its own: handlers are given by name. Nothing here ever logs a payload.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from relayctl.errors import RelayError, RequestRejected

FULL = "full"
CLOSING = "closing"
CANCELLED = "cancelled"

Document = Mapping[str, Any]
Work = Callable[[Document, threading.Event], Document]
"""Does what a request asks and answers it; the event is set when the worker stops and it should give up."""

Demand = Callable[[Document], "Course"]
"""Accepts a request that somebody else works on, or raises RequestRejected; never waits."""

_LONGEST_NAME = 256
_STOP = object()
_MOST_AT_ONCE = 32 * 1024
_LINE_COSTS = 32
"""What a line adds to a message beyond its characters."""


def asker(request: Document) -> str:
    """Who asks, as the request itself says; for the record alone."""
    return str(request.get("by") or "")[:_LONGEST_NAME]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a request ended. `reason` and `help` are for people, `duration_s` counts from its start."""

    is_ok: bool
    document: Document = field(default_factory=dict)
    reason: str = ""
    help: str = ""
    duration_s: float = 0.0

    @classmethod
    def internal(cls, error: Exception) -> Result:
        """Of a defect; without its text, which may repeat the payload."""
        return cls(is_ok=False, reason=f"internal error: {type(error).__name__}")


@dataclass(frozen=True, slots=True)
class Printed:
    """What a piece of work has printed since the last time, as (stream, line)."""

    lines: tuple[tuple[str, str], ...]


Happening = str | Printed | Result


class Course:
    """What happens to one accepted request, in order, for the one who waits. Of several results the first counts."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[str | tuple[str, str] | Result] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_finished = False
        self._is_heard = True
        self._events.put("queued")

    def tell(self, event: str) -> None:
        """It has come that far."""
        self._events.put(event)

    def print(self, stream: str, line: str) -> None:
        """Hand over a line of output, unless nobody listens any more."""
        if self._is_heard and not self._is_finished:
            self._events.put((stream, line))

    def finish(self, result: Result) -> bool:
        """Give the result, unless there is one already; whether there was none."""
        with self._lock:
            if self._is_finished:
                return False
            self._is_finished = True
        self._events.put(result)
        return True

    def leave(self) -> None:
        """The one who waited has gone, or has its result."""
        self._is_heard = False

    def events(self, poll_s: float) -> Iterator[Happening | None]:
        """What happens to it, the result last; None whenever nothing came for `poll_s`."""
        while True:
            try:
                event = self._events.get(timeout=poll_s)
            except queue.Empty:
                yield None
                continue
            following = event if not isinstance(event, tuple) else None
            if isinstance(event, tuple):
                lines, following = self._lines(event)
                yield Printed(lines)
            if following is not None:
                yield following
            if isinstance(following, Result):
                return

    def _lines(self, first: tuple[str, str]) -> tuple[tuple[tuple[str, str], ...], str | Result | None]:
        """Lines that are there already, within the size of one message, and what else came after them."""
        lines, size = [first], len(first[1])
        while size < _MOST_AT_ONCE:
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                break
            if not isinstance(event, tuple):
                return tuple(lines), event
            lines.append(event)
            size += len(event[1]) + _LINE_COSTS
        return tuple(lines), None


class Job(Course):
    """One accepted request for the queue's own executor."""

    def __init__(self, work: Work, request: Document) -> None:
        super().__init__()
        self._work = work
        self._request = request

    def run(self, cancel: threading.Event) -> None:
        """Do the work; whatever becomes of it, there is a result."""
        began = time.monotonic()
        self.tell("started")
        try:
            document = self._work(self._request, cancel)
        except RelayError as error:
            self.finish(_failed(began, error.message, error.help or ""))
        except Exception as error:  # noqa: BLE001  the waiting client must hear of it, and the next request must run
            # The text of an unforeseen error may repeat the payload.
            self.finish(_failed(began, f"internal error: {type(error).__name__}"))
        except BaseException as error:
            self.finish(_failed(began, f"internal error: {type(error).__name__}"))
            raise
        else:
            self.finish(Result(is_ok=True, document=document, duration_s=time.monotonic() - began))


class RequestQueue:
    """Takes requests until it is full or closed, and runs them one after the other on its own thread."""

    def __init__(self, capacity: int = 16) -> None:
        self._queue: queue.Queue[Any] = queue.Queue()
        self._capacity = capacity
        self._lock = threading.Lock()
        self._waiting = 0
        self._is_closed = False
        self._cancel = threading.Event()
        self._current: Job | None = None
        self._thread = threading.Thread(target=self._execute, name="requests", daemon=True)

    def start(self) -> None:
        """Begin to run what is accepted."""
        self._thread.start()

    def submit(self, work: Work, request: Document) -> Job:
        """Accept it, or raise RequestRejected with the reason `full` or `closing`; never waits."""
        with self._lock:
            if self._is_closed:
                raise RequestRejected(CLOSING)
            if self._waiting >= self._capacity:
                raise RequestRejected(FULL)
            self._waiting += 1
            job = Job(work, request)
            self._queue.put(job)
            return job

    def close(self) -> None:
        """Accept nothing more; what waits ends as cancelled, what runs may end by itself."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._queue.put(_STOP)

    def stop(self, within_s: float) -> None:
        """End now: tell the running work to give up, wait that long for it, then answer in its place."""
        self.close()
        self._cancel.set()
        if self._thread.is_alive():
            self._thread.join(within_s)
        current = self._current
        if current is not None:
            current.finish(cancelled())

    def _execute(self) -> None:
        try:
            while (job := self._queue.get()) is not _STOP:
                with self._lock:
                    self._waiting -= 1
                    is_closed = self._is_closed
                if is_closed:
                    job.finish(cancelled())
                    continue
                self._current = job
                job.run(self._cancel)
                self._current = None
        finally:
            self._cancel_waiting()

    def _cancel_waiting(self) -> None:
        """Also when the executor itself dies: nobody waits for a result that cannot come."""
        with self._lock:
            self._is_closed = True
        while True:
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                return
            if job is not _STOP:
                job.finish(cancelled())


def _failed(began: float, reason: str, help_text: str = "") -> Result:
    return Result(is_ok=False, reason=reason, help=help_text, duration_s=time.monotonic() - began)


def cancelled() -> Result:
    """The result of what was accepted and will not be begun."""
    return Result(is_ok=False, reason=CANCELLED, help="the worker is stopping; ask again when it is back")
