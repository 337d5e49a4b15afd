"""What an import found: jobs as relayctl would run them, and each piece of the source that is not carried, with why.

It reads no source and writes no file: readers make these values, `appfiles` turns them into text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from relayctl.core.names import MAX_NAME_LENGTH, legal_form

LONGEST_RUN = timedelta(hours=1)
"""The timeout of a job whose source knows none: cron and the like wait for ever, a worker by default for an hour."""

_NO_REFERENCE = re.compile(r"[^a-z0-9.-]+")
_TRAILING = re.compile(r"[._-]+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A piece of the source that is not carried as it stood. `is_lost` says that a job does not run because of it."""

    line: int
    message: str
    is_lost: bool = False


class Notes(list[Note]):
    """The notes of one source, in the order in which they were taken."""

    def take(self, line: int, message: str, *, is_lost: bool = False) -> None:
        """Note that something is not carried as it stood."""
        self.append(Note(line=line, message=message, is_lost=is_lost))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One schedule. `script` is the whole program that it runs."""

    name: str
    cron: str
    line: int
    script: str
    every: str = ""
    timezone: str = "UTC"
    timeout: timedelta = LONGEST_RUN
    retries: int = 0
    catch_up: str = "none"
    overlap: str = "allow"
    jitter: str = ""
    is_enabled: bool = True
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """All that one source says. `secrets` is environment name to reference; no value of a secret is kept."""

    jobs: Sequence[Job]
    notes: Sequence[Note]
    secrets: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether every job of the source runs."""
        return not any(note.is_lost for note in self.notes)


class Secrets:
    """Which secret fills which variable. An app has one for each name, whichever of its jobs runs."""

    def __init__(self) -> None:
        self.references: dict[str, str] = {}

    def take(self, variable: str, text: str) -> tuple[str, bool]:
        """A legal reference close to `text`, and whether the variable has it: another job may have another one."""
        reference = _NO_REFERENCE.sub("-", text.lower()).strip("-._")[:MAX_NAME_LENGTH].rstrip("-._") or "secret"
        return reference, self.references.setdefault(variable, reference) == reference

    def drop(self, variable: str) -> None:
        """No job needs it."""
        self.references.pop(variable, None)


class Names:
    """Legal names that were not given before."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def one_for(self, text: str, otherwise: str) -> str:
        """A name close to `text`, or to `otherwise` where nothing of it can stay; with a number where it is taken."""
        stem = legal_form(text) or otherwise
        name, count = stem, 1
        while name in self._given:
            count += 1
            tail = f"-{count}"
            name = _TRAILING.sub("", stem[: MAX_NAME_LENGTH - len(tail)]) + tail
        self._given.add(name)
        return name
