"""The thread that notices within a moment that the server is gone, and has it started again.

It holds one idle connection, whose end is the notice; it sends no command and takes no decision about who starts.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from relayctl.errors import BrokerError, RelayError

if TYPE_CHECKING:
    from pathlib import Path

    from relayctl.broker.supervise import EmbeddedBroker, Endpoint

_LOOK_S = 0.2
_CONNECT_S = 1.0
# A server that lived this long was sound: the next loss is answered at once again.
_SOUND_S = 10.0
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEvent:
    """What was seen or done; `error` with `failed` and `unsynced` only, `endpoint` with `started` and `attached`.

    `unsynced` says that the server serves, but the disk does not take its data.
    """

    kind: Literal["lost", "started", "attached", "failed", "unsynced"]
    endpoint: Endpoint | None = None
    error: RelayError | None = None


Listener = Callable[[BrokerEvent], None]


def is_listening(path: Path) -> bool:
    """Whether some server accepts connections on the unix socket `path`, now or when it gets round to it."""
    try:
        _connect(path).close()
    except (BlockingIOError, TimeoutError):
        # A full queue of a busy or stopped server. To take it for dead would be to kill it.
        return True
    except OSError:
        return False
    return True


class Watcher(threading.Thread):
    """Keeps the broker of one process alive until `stop` is set."""

    def __init__(self, broker: EmbeddedBroker, listener: Listener | None, stop: threading.Event) -> None:
        super().__init__(name="broker-watch", daemon=True)
        self._broker = broker
        self._listener = listener
        self._halt = stop
        self._failures = 0

    def run(self) -> None:
        while not self._halt.is_set():
            began = time.monotonic()
            is_socket_lost = self._await_loss()
            if self._halt.is_set():
                return
            if time.monotonic() - began >= _SOUND_S:
                self._failures = 0
            self._tell(BrokerEvent(kind="lost"))
            self._recover(is_socket_lost=is_socket_lost)

    def _await_loss(self) -> bool:
        """Return when the server is gone or on stop; True if only its socket file is."""
        path = self._broker.state.short_socket_path()
        try:
            connection = _connect(path)
        except OSError:
            return False
        with connection:
            connection.settimeout(_LOOK_S)
            seen = _identity(path)
            while not self._halt.is_set():
                try:
                    if not connection.recv(1):
                        return False
                except TimeoutError:
                    if _identity(path) != seen:
                        return True
                except OSError:
                    return False
        return False

    def _recover(self, *, is_socket_lost: bool) -> None:
        while not self._halt.is_set():
            if self._failures and self._halt.wait(self._pause()):
                return
            self._failures += 1
            try:
                endpoint = self._broker.recover(is_socket_lost=is_socket_lost)
            except Exception as error:  # noqa: BLE001  whatever it is, the next try may succeed
                if not self._halt.is_set():
                    self._tell(BrokerEvent(kind="failed", error=_ours(error)))
            else:
                self._tell(BrokerEvent(kind="started" if endpoint.owner else "attached", endpoint=endpoint))
                return

    def _pause(self) -> float:
        # Half of it is random, so that workers of one directory do not march in step.
        longest = min(_FIRST_PAUSE_S * 2 ** min(self._failures - 1, 10), _LONGEST_PAUSE_S)
        return float(longest * (0.5 + random.random() / 2))  # noqa: S311  spreads load, guards nothing

    def _tell(self, event: BrokerEvent) -> None:
        # A listener that fails must not cost the process its broker.
        if self._listener is not None:
            with suppress(Exception):
                self._listener(event)


def _ours(error: Exception) -> RelayError:
    return error if isinstance(error, RelayError) else BrokerError(f"the embedded broker cannot be started: {error}")


def _connect(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_CONNECT_S)
        connection.connect(str(path))
    except BaseException:
        connection.close()
        raise
    return connection


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
