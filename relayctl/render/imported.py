"""What an import carried and what it did not, as text and as a document for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from relayctl.core.carried import Import
from relayctl.core.counting import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """An import and where it went: `files` is path in `target` to text, nothing was written where `is_trial`."""

    found: Import
    files: Mapping[str, str]
    target: PurePath
    source: str
    is_trial: bool
    flags: str = ""
    """What the commands that come next need to find the app."""


def text(outcome: Outcome, width: int) -> str:
    """The files (with their text where nothing was written), the notes by line, the count and what to do next."""
    lines = _files(outcome)
    notes = sorted(outcome.found.notes, key=lambda note: note.line)
    if notes:
        lines += ["", f"not as it stood in {outcome.source}:"]
        for note in notes:
            place = f"line {note.line}"
            lines += textwrap.wrap(
                note.message,
                width=width,
                initial_indent=f"  {place:<9} ",
                subsequent_indent=" " * 12,
                break_long_words=False,
                break_on_hyphens=False,
            )
    lost = sum(note.is_lost for note in notes)
    lines += ["", f"{counted(len(outcome.found.jobs), 'job')} carried" + (f", {lost} not" if lost else "")]
    if outcome.files and not outcome.is_trial:
        first = outcome.found.jobs[0].name
        lines.append(f"next: relayctl validate {outcome.target}")
        lines.append(f"      relayctl invoke {outcome.target.name}/{first} --local{outcome.flags}")
    return "\n".join(lines).lstrip("\n") + "\n"


def _files(outcome: Outcome) -> list[str]:
    if not outcome.is_trial:
        return [f"wrote {outcome.target / name}" for name in outcome.files]
    lines: list[str] = []
    for name, content in outcome.files.items():
        lines += [f"# {outcome.target / name}", *content.splitlines(), ""]
    return lines[:-1]


def as_document(outcome: Outcome) -> dict[str, Any]:
    """A versioned document."""
    return {
        "v": 1,
        "app": outcome.target.name,
        "written": not outcome.is_trial and bool(outcome.files),
        "files": dict(outcome.files),
        "jobs": [
            {"schedule": job.name, "line": job.line, "cron": job.cron or None, "every": job.every or None}
            | {"timezone": job.timezone}
            for job in outcome.found.jobs
        ],
        "notes": [{"line": note.line, "message": note.message, "lost": note.is_lost} for note in outcome.found.notes],
        "secrets": dict(outcome.found.secrets),
    }
