"""The owner-only control socket of one process: accepts or refuses at once, answers questions on the spot.

Work goes through the queue of `host.requests`, demands to whoever answers for them; both stream their events back.
What may be asked is given by name, one request to a connection. Payloads are never logged.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from relayctl.errors import FileFailure, RelayError, RequestRejected, os_reason
from relayctl.host.frames import FrameError, Frames
from relayctl.host.lock import FileLock
from relayctl.host.requests import Course, Demand, Document, Printed, RequestQueue, Result, Work
from relayctl.host.socketfile import GUARD, listen, owner_text, peer_uid, socket_name, sweep

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.host.state import StateDir

Question = Callable[[Document], Document]
"""Answers at once, also while work runs and while the worker drains."""

MAX_REQUEST_BYTES = 1024 * 1024
_REQUEST_WITHIN_S = 5.0
_SEND_WITHIN_S = 5.0
_STREAM_WITHIN_S = 300.0
"""A client whose own reader rests may let a piece of output wait for so long: somebody scrolls in a pager."""
_MOST_CONNECTIONS = 96
_POLL_S = 0.25
_FAREWELL_S = 2.0


class ControlSocket:
    """The server side. Each connection carries one request."""

    def __init__(
        self,
        state: StateDir,
        token: str,
        clock: Clock,
        *,
        questions: Mapping[str, Question],
        work: Mapping[str, Work],
        demands: Mapping[str, Demand] | None = None,
        capacity: int = 16,
        limit: int = MAX_REQUEST_BYTES,
    ) -> None:
        """`token` (eight hex digits) tells this process from others that share the state directory."""
        self.path = state.short_socket_path(socket_name(token))
        self._guard = FileLock(state.path / GUARD, clock)
        self._questions = questions
        self._work = work
        self._demands = demands or {}
        self._limit = limit
        self._queue = RequestQueue(capacity)
        self._listener: socket.socket | None = None
        self._places = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._serving: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._is_over = False
        self._thread = threading.Thread(target=self._accept, name="control", daemon=True)

    def start(self) -> None:
        """Listen. Raises FileFailure when the socket cannot be made."""
        sweep(self.path.parent, self._guard)
        try:
            # Between bind and listen a live socket refuses like a stale one: the shared lock keeps sweepers away.
            self._guard.share()
            try:
                self._listener = listen(self.path, _MOST_CONNECTIONS)
            finally:
                self._guard.release()
        except OSError as error:
            raise FileFailure(
                f"the control socket {self.path} cannot be made: {os_reason(error)}",
                help="give a state directory on a local file system with --state-dir",
            ) from error
        self._queue.start()
        self._thread.start()

    def close(self) -> None:
        """Refuse further work; questions are still answered, and results still delivered."""
        self._queue.close()

    def stop(self, within_s: float = _FAREWELL_S) -> None:
        """End: everything accepted has its result, and the socket is gone. Safe to repeat."""
        if self._listener is None:
            return
        self._queue.stop(within_s)
        self._is_over = True
        # First out of sight, then closed: nobody finds a socket that is about to be stale.
        self.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._listener = None
        self._thread.join(within_s)
        until = time.monotonic() + within_s
        with self._lock:
            serving = list(self._serving)
        for thread in serving:
            thread.join(max(0.0, until - time.monotonic()))
        self._guard.remove()

    def _accept(self) -> None:
        listener = self._listener
        assert listener is not None
        pause = threading.Event()
        while not self._is_over:
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError:
                if self._is_over:
                    return
                # Out of descriptors: it gets better, and must not spin until then.
                pause.wait(_POLL_S)
                continue
            if not self._places.acquire(blocking=False):
                _refuse(connection, "full")
                continue
            thread = threading.Thread(target=self._serve, args=(connection,), name="control-client", daemon=True)
            with self._lock:
                self._serving.add(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                self._converse(connection)
        except OSError:
            # The client has gone, or does not read: its work goes on.
            pass
        finally:
            self._places.release()
            with self._lock:
                self._serving.discard(threading.current_thread())

    def _converse(self, connection: socket.socket) -> None:
        frames = Frames(connection, limit=self._limit)
        peer = peer_uid(connection)
        if peer is not None and peer != os.geteuid():
            frames.write({"event": "rejected", "reason": "foreign", "owner": owner_text(os.geteuid())}, _SEND_WITHIN_S)
            return
        try:
            request = frames.read(_REQUEST_WITHIN_S)
            if request is not None:
                self._answer(frames, request)
        except TimeoutError:
            frames.write({"event": "rejected", "reason": "late"}, _SEND_WITHIN_S)
        except FrameError as error:
            frames.write({"event": "rejected", "reason": error.message}, _SEND_WITHIN_S)

    def _answer(self, frames: Frames, request: Mapping[str, Any]) -> None:
        name, payload = request.get("path"), request.get("request")
        if not isinstance(name, str) or not isinstance(payload, dict):
            raise FrameError("malformed")
        if name in self._questions:
            frames.write(_done(_answered(self._questions[name], payload)), _SEND_WITHIN_S)
            return
        try:
            course = self._accepted(frames, name, payload)
        except RequestRejected as refusal:
            known = {"known": list(refusal.known)} if refusal.known else {}
            frames.write({"event": "rejected", "reason": refusal.reason, **known}, _SEND_WITHIN_S)
            return
        if course is not None:
            try:
                _follow(course, frames)
            finally:
                course.leave()

    def _accepted(self, frames: Frames, name: str, payload: Document) -> Course | None:
        """What becomes of the request from now on; None where the one who asked has gone already."""
        if name in self._work:
            return self._queue.submit(self._work[name], payload)
        if name not in self._demands:
            raise FrameError("unknown")
        # Who gave up on a worker that was held up has asked the next one: it must not be done twice.
        if frames.is_closed_by_peer():
            return None
        try:
            return self._demands[name](payload)
        except RequestRejected:
            raise
        except Exception as error:  # noqa: BLE001  its text may repeat the payload
            frames.write(_done(Result.internal(error)), _SEND_WITHIN_S)
            return None


def _follow(course: Course, frames: Frames) -> None:
    """Send what happens until the result, or until nobody is there to hear it."""
    has_left = False
    for event in course.events(_POLL_S):
        if event is None:
            # One that hangs up still hears whether its work was dropped or goes on.
            if has_left:
                return
            if frames.is_closed_by_peer():
                has_left = True
                course.leave()
        elif isinstance(event, Result):
            frames.write(_done(event), _STREAM_WITHIN_S)
        elif isinstance(event, Printed):
            frames.write({"event": "output", "lines": event.lines}, _STREAM_WITHIN_S)
        else:
            frames.write({"event": event}, _SEND_WITHIN_S)


def _refuse(connection: socket.socket, reason: str) -> None:
    with connection, contextlib.suppress(OSError):
        Frames(connection, limit=0).write({"event": "rejected", "reason": reason}, 0.1)


def _answered(question: Question, request: Document) -> Result:
    try:
        return Result(is_ok=True, document=question(request))
    except RelayError as error:
        return Result(is_ok=False, reason=error.message, help=error.help or "")
    except Exception as error:  # noqa: BLE001  its text may repeat the payload
        return Result.internal(error)


def _done(result: Result) -> dict[str, Any]:
    return {
        "event": "done",
        "ok": result.is_ok,
        "result": dict(result.document),
        "reason": result.reason,
        "help": result.help,
        "duration_s": round(result.duration_s, 6),
    }
