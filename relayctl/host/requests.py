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

_STOP = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a request ended. `reason` and `help` are for people, `duration_s` counts from its start."""

    is_ok: bool
    document: Document = field(default_factory=dict)
    reason: str = ""
    help: str = ""
    duration_s: float = 0.0


class Job:
    """One accepted request. Its events come in order, and of several results the first counts."""

    def __init__(self, work: Work, request: Document) -> None:
        self._work = work
        self._request = request
        self._events: queue.SimpleQueue[str | Result] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_finished = False
        self._events.put("queued")

    def run(self, cancel: threading.Event) -> None:
        """Do the work; whatever becomes of it, there is a result."""
        began = time.monotonic()
        self._events.put("started")
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

    def finish(self, result: Result) -> None:
        """Give the result, unless there is one already."""
        with self._lock:
            if self._is_finished:
                return
            self._is_finished = True
        self._events.put(result)

    def events(self, poll_s: float) -> Iterator[str | Result | None]:
        """What happens to it, the result last; None whenever nothing came for `poll_s`."""
        while True:
            try:
                event = self._events.get(timeout=poll_s)
            except queue.Empty:
                yield None
                continue
            yield event
            if isinstance(event, Result):
                return


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
            current.finish(_cancelled())

    def _execute(self) -> None:
        try:
            while (job := self._queue.get()) is not _STOP:
                with self._lock:
                    self._waiting -= 1
                    is_closed = self._is_closed
                if is_closed:
                    job.finish(_cancelled())
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
                job.finish(_cancelled())


def _failed(began: float, reason: str, help_text: str = "") -> Result:
    return Result(is_ok=False, reason=reason, help=help_text, duration_s=time.monotonic() - began)


def _cancelled() -> Result:
    return Result(is_ok=False, reason=CANCELLED, help="the worker is stopping; ask again when it is back")
