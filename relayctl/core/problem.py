"""A mistake in a template as a value: code, place, text and way out. Problems are collected, never raised."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """How much a problem matters; an error keeps the app from running."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in a file. `line` and `column` count from 1 in characters; `length` is the width of the token on that line.

    `path` is the position in the document, such as `schedules[0].cron`; `label` names the item it lies in, such as
    `schedules[0] "nightly"`.
    """

    file: str
    line: int = 1
    column: int = 1
    length: int = 1
    path: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One replacement in a file: the token from (`line`, `column`) to (`end_line`, `end_column`) becomes `text`."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """Edits that cure a problem. A safe fix keeps the meaning, an unsafe one changes what runs."""

    description: str
    edits: tuple[Edit, ...]
    is_safe: bool
    repeats_lines: bool = False
    """Its edits hold lines of the file, whose values are not for everybody's eyes: reports leave the edits out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One finding.

    `message` is the headline, `detail` stands beside the caret, `help` is the way out, `notes` are further facts,
    `excerpt` is the source line to show (already masked where it held a secret).
    """

    code: str
    severity: Severity
    place: Place
    message: str
    detail: str = ""
    help: str = ""
    notes: tuple[str, ...] = ()
    excerpt: str | None = None
    fix: Fix | None = None

    @property
    def is_error(self) -> bool:
        """Whether it keeps the app from running."""
        return self.severity is Severity.ERROR

    @property
    def sort_key(self) -> tuple[str, int, int, str]:
        """Files in order, then top to bottom."""
        return (self.place.file, self.place.line, self.place.column, self.code)
