"""The thin client of a control socket: one request, its events, its one result, or an error that says how it failed."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from relayctl.errors import ConnectionLost, RelayError, RequestRejected, WorkerUnreachable, os_reason
from relayctl.host.frames import FrameError, Frames
from relayctl.host.requests import CANCELLED, Document, Result
from relayctl.host.socketfile import CONNECT_WITHIN_S, foreign, foreign_owner, owner_text, peer_uid

MAX_ANSWER_BYTES = 16 * 1024 * 1024
_SEND_WITHIN_S = 5.0
_FAREWELL_WITHIN_S = 5.0
_REASONS = {
    "full": ("the worker has as many requests waiting as it takes", "ask again in a moment"),
    "closing": ("the worker is stopping", "ask again when it, or another one, is up"),
    "unknown": ("the worker does not know this request", "it may run an older relayctl: restart it"),
    "version": ("the worker speaks another version of the protocol", "use the relayctl that the worker runs"),
    "too-large": ("the request is larger than the worker takes", "send less"),
    "malformed": ("the worker could not read the request", "use the relayctl that the worker runs"),
    "late": ("the request took too long to arrive", "ask again"),
    "starting": ("the worker is starting", "ask again in a moment"),
    "no-app": ("the worker has no such app", "relayctl status names those that run"),
    "no-handler": ("the worker's app has no such schedule or handler", "relayctl inspect names them"),
    "unable": ("the worker cannot run this app", "its log says why"),
}


def submit(
    path: Path,
    name: str,
    request: Document,
    on_event: Callable[[str], None] | None = None,
    *,
    within_s: float | None = None,
    on_line: Callable[[str, str], None] | None = None,
) -> Result:
    """Ask the process behind `path` and wait for the one result; `on_event` hears `queued` and `started`.

    Whatever stops the wait from outside (KeyboardInterrupt) hangs up first: `on_event` may hear `cancelled` then.

    With `on_line` the work prints: it gets each line with its stream's name, and `within_s` bounds only how long the
    request may wait to be accepted.

    Raises WorkerUnreachable (nobody answers, also not within `within_s`), RequestRejected (refused at once), or
    ConnectionLost (accepted, but the result will not come).
    """
    deadline = None if within_s is None else time.monotonic() + within_s
    with _connected(path) as connection:
        frames = Frames(connection, limit=MAX_ANSWER_BYTES)
        is_accepted = has_begun = False
        try:
            frames.write({"path": name, "request": dict(request)}, _SEND_WITHIN_S)
        except TimeoutError:
            raise _silent(path, _SEND_WITHIN_S) from None
        except OSError:
            # Refused before it was read: the reason is waiting.
            pass
        try:
            while True:
                answer = _next(frames, path, deadline, within_s, is_accepted)
                kind = str(answer.get("event"))
                if kind == "rejected":
                    raise _rejection(path, answer)
                if kind == "done":
                    return _result(answer)
                is_accepted = True
                has_begun = has_begun or kind != "queued"
                if on_line is not None:
                    deadline = None
                if kind == "output" and on_line is not None:
                    for stream, line in _lines(answer):
                        on_line(stream, line)
                elif on_event is not None:
                    on_event(kind)
        except BaseException as stop:
            if on_event is not None and is_accepted and not has_begun and not isinstance(stop, Exception):
                _hang_up(connection, frames, on_event)
            raise


def _hang_up(connection: socket.socket, frames: Frames, on_event: Callable[[str], None]) -> None:
    """Stop waiting, and hear whether the work had begun: `started`, or `cancelled` where it is dropped."""
    until = time.monotonic() + _FAREWELL_WITHIN_S
    with contextlib.suppress(OSError, FrameError):
        connection.shutdown(socket.SHUT_WR)
        while (answer := frames.read(max(0.0, until - time.monotonic()))) is not None:
            if answer.get("event") == "started":
                on_event("started")
                return
            if answer.get("event") == "done":
                if answer.get("reason") == CANCELLED:
                    on_event(CANCELLED)
                return


def _result(answer: Mapping[str, Any]) -> Result:
    document = answer.get("result")
    return Result(
        is_ok=answer.get("ok") is True,
        document=document if isinstance(document, dict) else {},
        reason=str(answer.get("reason") or ""),
        help=str(answer.get("help") or ""),
        duration_s=float(answer.get("duration_s") or 0.0),
    )


def _lines(answer: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = answer.get("lines")
    pairs = [each for each in found if isinstance(each, list) and len(each) == 2] if isinstance(found, list) else []
    return [(str(stream), str(line)) for stream, line in pairs]


def _connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(CONNECT_WITHIN_S)
    try:
        connection.connect(os.fspath(path))
    except OSError as error:
        connection.close()
        if isinstance(error, PermissionError):
            raise foreign(path) from None
        if isinstance(error, TimeoutError | BlockingIOError):
            raise _silent(path, CONNECT_WITHIN_S) from None
        raise WorkerUnreachable(
            f"no worker answers on {path}: {os_reason(error)}",
            help="start one on this state directory: relayctl serve",
        ) from None
    peer = peer_uid(connection)
    if peer is not None and peer != os.geteuid():
        # Also for root, which could connect: whoever answers there is not this user's worker.
        connection.close()
        raise foreign_owner(path, owner_text(peer))
    return connection


def _next(
    frames: Frames, path: Path, deadline: float | None, within_s: float | None, is_accepted: bool
) -> dict[str, Any]:
    try:
        answer = frames.read(None if deadline is None else max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        raise _silent(path, within_s or 0.0) from None
    except FrameError:
        raise ConnectionLost(
            f"the worker on {path} answered in a form that cannot be read",
            help="use the relayctl that the worker runs",
        ) from None
    except OSError:
        answer = None
    if answer is not None:
        return answer
    raise ConnectionLost(
        f"the worker on {path} went away before the result came",
        help="what it had begun may still end; look at its log"
        if is_accepted
        else "the request may not have begun; ask again",
    )


def _silent(path: Path, within_s: float) -> WorkerUnreachable:
    return WorkerUnreachable(
        f"the worker on {path} does not answer within {within_s:g} s",
        help="it is stopped or overloaded; look at its log, or end it and start it again",
    )


def _rejection(path: Path, answer: Mapping[str, Any]) -> RelayError:
    reason = str(answer.get("reason"))
    if reason == "foreign":
        return foreign_owner(path, str(answer.get("owner")))
    words, help_text = _REASONS.get(reason, ("the worker refused the request", "look at its log"))
    known = answer.get("known")
    names = [str(name) for name in known] if isinstance(known, list) else []
    return RequestRejected(f"{words} ({reason})", help=help_text, reason=reason, known=names)
