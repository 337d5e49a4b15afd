"""Plans in files for the commands that save, show and apply them: reads and writes; what is in them is the core's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.errors import FileFailure, RelayError, UsageError, os_reason

if TYPE_CHECKING:
    from relayctl.core.planfile import SavedPlan

_MOST_BYTES = 256 << 20


def read_plan(path: Path) -> SavedPlan:
    """The plan saved in a file. UsageError where it is none, NewerFormat for one of a newer relayctl, FileFailure."""
    from relayctl.core.planfile import from_document

    try:
        return from_document(_document(path))
    except RelayError as error:
        raise type(error)(f"{path}: {error.message}", help=error.help or "relayctl plan --out FILE saves one") from None


def _document(path: Path) -> object:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise UsageError("there is no such file") from None
    except OSError as error:
        raise FileFailure(f"cannot be read: {os_reason(error)}") from None
    if len(data) > _MOST_BYTES:
        raise UsageError("too large for a saved plan")
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise UsageError("not a saved plan: it is not JSON") from None


def plan_text(saved: SavedPlan) -> str:
    """What the file of a plan holds."""
    from relayctl.core.planfile import to_document

    return json.dumps(to_document(saved), indent=1) + "\n"
