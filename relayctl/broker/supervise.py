"""The embedded broker of one state directory: at most one server, held by whoever started it, used by all.

`start_or_attach` may be called from any thread. This module restarts nothing by itself; `watch` starts the thread
that does. Waits here are real time, whatever clock is given: the clock only dates the lock's record.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from relayctl.broker.binary import find_server
from relayctl.broker.config import AOF_DIRECTORY
from relayctl.broker.launch import PROBE_S, end, launch
from relayctl.broker.spawner import DEFAULT_TIE, Server, Tie
from relayctl.broker.syncing import Syncer
from relayctl.broker.watch import BrokerEvent, Listener, Watcher, is_listening
from relayctl.errors import BrokerUnavailable, FileFailure
from relayctl.host.lock import FileLock
from relayctl.store.connect import Readiness, Target, check_server, connect, probe

if TYPE_CHECKING:
    from relayctl.broker.binary import ServerBinary
    from relayctl.host.clock import Clock
    from relayctl.host.state import StateDir

_POLL_S = 0.02
_ATTACH_S = 30.0
# How long a command that may not start a server waits for one that is just being restarted.
_GRACE_S = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where the server listens, whether this process started it (it then ends with this process), and its pid."""

    url: str
    owner: bool
    pid: int


class EmbeddedBroker:
    """This process's part in the one server of a state directory."""

    def __init__(
        self, state: StateDir, clock: Clock, *, binary: ServerBinary | None = None, tie: Tie = DEFAULT_TIE
    ) -> None:
        self.state = state
        self._binary = binary
        self._tie = tie
        self._lock = FileLock(state.broker_lock, clock)
        self._presence = FileLock(state.broker_users, clock)
        self._mutex = threading.RLock()
        self._stop = threading.Event()
        self._server: Server | None = None
        self._server_of = 0
        self._endpoint: Endpoint | None = None
        self._watcher: Watcher | None = None
        self._syncer: Syncer | None = None
        self._listener: Listener | None = None

    @property
    def endpoint(self) -> Endpoint | None:
        """The last endpoint found; None before the first."""
        return self._endpoint

    @property
    def target(self) -> Target:
        """The address, which stays the same through restarts."""
        return Target.unix(str(self.state.short_socket_path()))

    def start_or_attach(self) -> Endpoint:
        """Attach to the running server, or start it if nobody has; of several callers anywhere one starts it.

        Raises NoBroker, BrokerDamaged, NewerFormat, FileFailure or BrokerUnavailable; all name the way out.
        """
        with self._mutex:
            self._stop.clear()
            return self._start_or_attach()

    def attach(self, within_s: float = _GRACE_S) -> Endpoint | None:
        """Attach to the running server, starting none; None if there is none.

        Where there are traces of one (its lock or socket, or workers that watch it), waits up to `within_s` for it
        to answer, since it may be starting. BrokerUnavailable if one holds the directory and does not answer.
        """
        if not self.state.exists():
            return None
        deadline = time.monotonic() + within_s
        while True:
            endpoint = self._attached() if self._look() == "ready" else None
            if endpoint is not None or not self._has_traces():
                return endpoint
            if time.monotonic() > deadline or self._stop.wait(_POLL_S):
                if self._lock.is_held():
                    raise self._silent_holder()
                return None

    def ensure(self) -> Endpoint:
        """The endpoint if its server is alive, else as `start_or_attach`; but BrokerUnavailable after `stop`."""
        with self._mutex:
            if self._endpoint is not None and self.is_alive():
                return self._endpoint
            return self._start_or_attach()

    def is_alive(self) -> bool:
        """Whether a server listens on the socket now (it may still be loading)."""
        return is_listening(self.state.short_socket_path())

    def watch(self, listener: Listener | None = None) -> None:
        """Keep a server running from now on: a thread restarts or attaches as soon as the server is gone.

        `listener` is called with what happened, from that thread or the one that syncs. Ends with `stop`.
        """
        with self._mutex:
            self._listener = listener
            if self._watcher is None:
                self.state.create()
                self._presence.share()
                self._watcher = Watcher(self, listener, self._stop)
                self._watcher.start()

    def stop(self) -> None:
        """Stop watching and, where this process started the server, stop it in an orderly way. Safe to repeat."""
        self._stop.set()
        watcher, self._watcher = self._watcher, None
        if watcher is not None and watcher is not threading.current_thread():
            watcher.join()
        with self._mutex:
            self._drop_server()
            self._endpoint = None
            if self.state.path.is_dir():
                self._presence.remove()
                self._lock.remove()

    def recover(self, *, is_socket_lost: bool) -> Endpoint:
        """Start or attach after the server was seen gone, or its socket file was removed from under it."""
        with self._mutex:
            if is_socket_lost:
                self._drop_unreachable()
            return self._start_or_attach()

    def __enter__(self) -> Self:
        self.start_or_attach()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def _start_or_attach(self) -> Endpoint:
        if not self.is_alive():
            # Dead and to be reaped; or its directory or socket was removed, and nobody can reach it any more.
            self._drop_unreachable()
        self.state.create()
        deadline = time.monotonic() + _ATTACH_S
        while not self._stop.is_set():
            endpoint = self._try_start()
            found = "absent" if endpoint else self._look()
            if found == "ready":
                endpoint = self._attached()
            if endpoint is not None:
                return endpoint
            if found == "loading":
                deadline = time.monotonic() + _ATTACH_S
            if time.monotonic() > deadline:
                raise self._silent_holder()
            self._stop.wait(_POLL_S)
        raise BrokerUnavailable("the start of the embedded broker was cut short by a stop")

    def _try_start(self) -> Endpoint | None:
        if not self._lock.try_acquire():
            return None
        try:
            self._binary = self._binary or find_server()
            server = launch(self.state, self._lock, self._binary, tie=self._tie, stop=self._stop)
        except BaseException:
            self._lock.release()
            raise
        # From here the lock lives exactly as long as the server, not as long as this process.
        self._lock.hand_over()
        self._server, self._server_of = server, os.getpid()
        self._syncer = Syncer(self.state.broker_data / AOF_DIRECTORY, self._unsynced)
        self._syncer.start()
        self._endpoint = Endpoint(url=self.target.display, owner=True, pid=server.process.pid)
        return self._endpoint

    def _look(self) -> Readiness:
        # The probe costs a client; most looks during a race find no socket at all.
        return probe(self.target, timeout_s=PROBE_S) if self.is_alive() else "absent"

    def _attached(self) -> Endpoint | None:
        target = self.target
        client = connect(target)
        try:
            pid = check_server(client).pid
        except BrokerUnavailable:
            return None
        finally:
            client.close()
        mine = self._server is not None and self._server.process.pid == pid
        if not mine:
            self._drop_unreachable()
        self._endpoint = Endpoint(url=target.display, owner=mine, pid=pid or 0)
        return self._endpoint

    def _has_traces(self) -> bool:
        return (
            self._lock.is_held()
            or self.state.short_socket_path().exists()
            or self._presence.is_held(counting_shared=True)
        )

    def _drop_unreachable(self) -> None:
        # Not in an orderly way: on such an exit a server unlinks its socket's path, which may be another's by now.
        self._drop_server(politely=False)

    def _drop_server(self, *, politely: bool = True) -> None:
        server, self._server = self._server, None
        # A forked child has a copy of this object, but the server is its parent's.
        if server is not None and self._server_of == os.getpid():
            end(server, politely=politely)
            if self._syncer is not None:
                self._syncer.stop()

    def _unsynced(self, error: FileFailure) -> None:
        if self._listener is not None:
            self._listener(BrokerEvent(kind="unsynced", error=error))

    def _silent_holder(self) -> BrokerUnavailable:
        holder = self._lock.holder()
        who = f"process {holder.pid}, since {holder.since_at.isoformat()}" if holder else "another process"
        return BrokerUnavailable(
            f"the embedded broker of {self.state.path} is held by {who}, but does not answer",
            help=f"try again in a moment; see {self.state.broker_log}, and if that process hangs, end it",
        )
