"""What happened, as frozen values: logs, counters and tests listen to one `emit(fact)`.

An event's slug, level and field names are interface. The words for people stand in `render.facts`; nothing is
written here. A new fact is one class here, one line of wording there and one example in its golden test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, ClassVar


class Level(Enum):
    """How much a fact matters to an operator."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


_KINDS: dict[str, type[Fact]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that happened. `event` is its slug, `level` its weight; the fields carry ids and never a secret."""

    event: ClassVar[str] = ""
    level: ClassVar[Level] = Level.INFO

    def __init_subclass__(cls) -> None:
        # Making a class slotted makes it a second time, and the second one counts.
        _KINDS[cls.event] = cls

    def to_fields(self) -> dict[str, Any]:
        """The fields as JSON values: instants in UTC, durations in seconds (`…_s`), absent ones left out."""
        found: dict[str, Any] = {}
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            kind = type(value)
            if kind is str or kind is int:
                found[name] = value
            elif isinstance(value, timedelta):
                found[f"{name}_s"] = round(value.total_seconds(), 6)
            elif isinstance(value, datetime):
                found[name] = value.strftime("%Y-%m-%dT%H:%M:%SZ")
            elif isinstance(value, Enum):
                found[name] = value.value
            elif value is not None:
                found[name] = list(value) if isinstance(value, tuple) else value
        return found


Emit = Callable[[Fact], None]
"""Where facts go; it never raises and never blocks for long."""


def all_facts() -> tuple[type[Fact], ...]:
    """Every kind of fact, in the order in which they are defined."""
    return tuple(_KINDS.values())
