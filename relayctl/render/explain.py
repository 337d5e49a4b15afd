"""The answer of `explain` as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from relayctl.core.cron import Cron
from relayctl.core.forecast import Forecast, zone_of
from relayctl.core.occurrence import instant_text
from relayctl.render import firing
from relayctl.render.instants import local_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """What another evaluator makes of the same line; `refusal` is set where it takes none of it."""

    name: str
    next_at: tuple[datetime, ...]
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """An expression with everything there is to say about it."""

    trigger: Cron
    ahead: Forecast
    caveats: Sequence[firing.Caveat] = ()
    other: Other | None = None


def text(explained: Explained, width: int) -> str:
    """The block, and the comparison below it."""
    lines = [firing.trigger_line(explained.trigger)]
    lines += firing.block(explained.trigger, explained.ahead, explained.caveats, width)
    if explained.other is not None:
        lines += _compared(explained, explained.other, width)
    return "\n".join(lines) + "\n"


def as_document(explained: Explained) -> dict[str, Any]:
    """A versioned document."""
    document = {"v": 1, **firing.as_document(explained.trigger, explained.ahead, explained.caveats)}
    if explained.other is not None:
        other = explained.other
        document[other.name] = {"next": [instant_text(at) for at in other.next_at], "refusal": other.refusal or None}
    return document


def _compared(explained: Explained, other: Other, width: int) -> list[str]:
    if other.refusal:
        return firing.field(other.name, [f"refuses this line ({other.refusal})"], width)
    if other.next_at == explained.ahead.next_at:
        return firing.field(other.name, ["fires at the same times, as far as shown"], width)
    zone, ours = zone_of(explained.trigger), set(explained.ahead.next_at)
    rows = [local_text(at, zone) + ("" if at in ours else "    not here") for at in other.next_at]
    # Beyond its last firing nothing is known of the other one.
    missed = [at for at in explained.ahead.next_at if at not in set(other.next_at) and at <= max(other.next_at)]
    rows += [f"{local_text(at, zone)}    here only" for at in missed]
    return firing.field(other.name, rows, width)
