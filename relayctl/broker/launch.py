"""One launch of the embedded server by the process that holds the lock: prepare, spawn, wait, explain a failure.

Decides nothing about who launches or how often; repairs nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from relayctl.broker.config import render_config
from relayctl.broker.diagnosis import explain_exit
from relayctl.broker.spawner import Server, Tie, spawn
from relayctl.errors import BrokerError, BrokerUnavailable, FileFailure, NewerFormat, os_reason
from relayctl.host.wholefile import write_whole
from relayctl.store.connect import Target, probe

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from relayctl.broker.binary import ServerBinary
    from relayctl.host.lock import FileLock
    from relayctl.host.state import StateDir

STAMP_FORMAT = 1
_LOG_KEPT_BYTES = 1 << 20
_POLL_S = 0.02
# How long one look at a starting server may take; short, so that a stop is never held up.
PROBE_S = 1.0
# How long a server may show no sign of life at all; one that says it is loading gets as long as it needs.
_SILENCE_S = 30.0
_STOP_S = 10.0


def launch(state: StateDir, lock: FileLock, binary: ServerBinary, *, tie: Tie, stop: threading.Event) -> Server:
    """Start the server on `state` and return when it takes commands. The caller holds `lock`.

    Afterwards the server holds the lock too. On any error nothing is left running.
    """
    socket = state.short_socket_path()
    try:
        _check_stamp(state.broker_stamp)
        log_start = _prepare(state, socket)
        server = _spawn(state, lock, binary, tie)
    except OSError as error:
        raise FileFailure(
            f"the embedded broker cannot be set up in {state.path}: {os_reason(error)}",
            help="check the free space and the owner of this directory",
        ) from error
    try:
        lock.record(server.process.pid)
        _await_ready(server, Target.unix(str(socket)), state, binary, log_start, stop)
        _write_stamp(state.broker_stamp, binary)
    except BaseException:
        end(server)
        raise
    return server


def end(server: Server, *, politely: bool = True) -> None:
    """Stop a server of this process and reap it: SIGTERM, which flushes its file, then SIGKILL."""
    process = server.process
    if process.poll() is None:
        if politely:
            process.terminate()
        else:
            process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
        if process.poll() is None:
            process.kill()
    process.wait()
    server.close()


def _prepare(state: StateDir, socket: Path) -> int:
    """Write the configuration, clear what a killed predecessor left; the length of the log so far."""
    socket.unlink(missing_ok=True)
    if state.broker_log.exists() and state.broker_log.stat().st_size > _LOG_KEPT_BYTES:
        state.broker_log.replace(state.broker_log.with_suffix(".log.1"))
    state.broker_config.write_text(
        render_config(data=state.broker_data, socket=socket, log=state.broker_log), encoding="ascii"
    )
    return state.broker_log.stat().st_size if state.broker_log.exists() else 0


def _spawn(state: StateDir, lock: FileLock, binary: ServerBinary, tie: Tie) -> Server:
    output = os.open(state.broker_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        command = [str(binary.path), str(state.broker_config)]
        return spawn(command, lock_fd=lock.fileno(), output_fd=output, tie=tie)
    finally:
        os.close(output)


def _await_ready(
    server: Server,
    target: Target,
    state: StateDir,
    binary: ServerBinary,
    log_start: int,
    stop: threading.Event,
) -> None:
    deadline = time.monotonic() + _SILENCE_S
    while (found := probe(target, timeout_s=PROBE_S)) != "ready":
        if server.process.poll() is not None:
            raise explain_exit(state, binary, log_start)
        if found == "loading":
            deadline = time.monotonic() + _SILENCE_S
        if time.monotonic() > deadline:
            raise BrokerError(
                f"the embedded broker runs but does not answer for {_SILENCE_S:.0f} seconds",
                help=f"see {state.broker_log}",
            )
        if stop.wait(_POLL_S):
            raise BrokerUnavailable("the start of the embedded broker was cut short by a stop")


def _check_stamp(stamp: Path) -> None:
    try:
        written = json.loads(stamp.read_bytes())
    except (FileNotFoundError, ValueError):
        # Torn by a full disk or a crash: it says nothing, and the data itself is checked by the server.
        return
    found = written.get("format") if isinstance(written, dict) else None
    if isinstance(found, int) and found > STAMP_FORMAT:
        raise NewerFormat(
            f"the broker data in {stamp.parent} has format {found}, and this relayctl knows up to {STAMP_FORMAT}",
            help="use the newer relayctl that wrote it, or give another --state-dir",
        )


def _write_stamp(stamp: Path, binary: ServerBinary) -> None:
    content = {"format": STAMP_FORMAT, "flavour": binary.flavour, "version": binary.version_text}
    # The stamp is for a later reader; a disk too full for it must not keep a working broker down.
    with suppress(OSError):
        write_whole(stamp, (json.dumps(content) + "\n").encode())
