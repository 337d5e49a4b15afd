"""Problems as people and programs read them. Lines are shown as the problem carries them, already without secrets."""

from __future__ import annotations

import json
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relayctl.core.counting import counted
from relayctl.core.problem import Fix, Problem, Severity
from relayctl.render.escapes import escape

JSON_VERSION = 1
_NARROWEST = 40
_OWN_LABEL = ("next", "see")
_WITHOUT_SOURCE = "06"
"""Families whose lines are shown only as the problem carries them: others would not be masked."""
_ASCII = str.maketrans({"…": "...", "→": "->", "·": "-", "≈": "~"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was looked at, and how long it took."""

    files: int
    schedules: int
    took_s: float


def text(
    problems: Sequence[Problem],
    sources: Mapping[str, str],
    width: int = 80,
    unicode: bool = True,
    *,
    counts: Counts | None = None,
) -> str:
    """Every problem with its line, a caret under the token and the way out; then how many there are.

    `sources` maps files to texts, for problems that carry no line. `unicode` False keeps to ASCII.
    """
    page = _Page(width=max(width, _NARROWEST), is_unicode=unicode)
    parts = [page.problem(problem, _line_of(problem, sources)) for problem in problems]
    if counts is not None:
        parts.append(page.clean(summary(problems, counts)) + _explain(problems))
    return "\n\n".join(parts) + "\n" if parts else ""


def concise(problems: Sequence[Problem]) -> str:
    """One line for each problem."""
    page = _Page(width=80, is_unicode=True)
    return "".join(f"{page.head(problem)}\n" for problem in problems)


def as_json(
    problems: Sequence[Problem],
    *,
    counts: Counts | None = None,
    fixed: Sequence[Problem] | None = None,
) -> str:
    """A versioned document; `fixed` are problems that are gone, where fixes were put in."""
    document: dict[str, Any] = {"v": JSON_VERSION, "problems": [_as_mapping(problem) for problem in problems]}
    document["summary"] = {
        "errors": _count(problems, Severity.ERROR),
        "warnings": _count(problems, Severity.WARNING),
        "remarks": _count(problems, Severity.INFO),
    }
    if fixed is not None:
        document["fixed"] = [_as_mapping(problem) for problem in fixed]
        document["summary"]["fixed"] = len(fixed)
    if counts is not None:
        document["summary"] |= {"files": counts.files, "schedules": counts.schedules}
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    width: int
    is_unicode: bool

    def head(self, problem: Problem) -> str:
        place = problem.place
        where = f"{place.file}:{place.line}:{place.column}"
        return self.clean(f"{where}: {problem.severity.value} {problem.code} {problem.message}")

    def problem(self, problem: Problem, line: str | None) -> str:
        number = str(problem.place.line)
        margin = " " * (len(number) + 1)
        lines = [self.head(problem)]
        if line is not None:
            lines += self._excerpt(problem, line, number, margin)
        elif problem.detail:
            lines += self._labelled("note", problem.detail, margin)
        notes = [self._note(note, margin) for note in problem.notes]
        hint = self._labelled("help", problem.help, margin) if problem.help else []
        # Facts about what happens lead to the way out; a remark on what follows from it comes last.
        is_fact = problem.notes[:1] != () and problem.notes[0].partition(": ")[0] in _OWN_LABEL
        for block in [*notes, hint] if is_fact else [hint, *notes]:
            lines += block
        return "\n".join(lines)

    def _note(self, note: str, margin: str) -> list[str]:
        label, colon, rest = note.partition(": ")
        return (
            self._labelled(label, rest, margin)
            if colon and label in _OWN_LABEL
            else self._labelled("note", note, margin)
        )

    def _excerpt(self, problem: Problem, line: str, number: str, margin: str) -> list[str]:
        start = min(problem.place.column - 1, len(line))
        stop = max(min(start + problem.place.length, len(line)), start)
        room = self.width - len(margin) - 2
        line, start, stop = self._window(line, start, stop, room)
        before, token, after = (self._shown(part) for part in (line[:start], line[start:stop], line[stop:]))
        caret = " " * _columns(before) + "^" * max(_columns(token), 1)
        shown = [f"{margin}|", f"{number} | {before}{token}{after}".rstrip()]
        detail = self.clean(problem.detail)
        if not detail or len(margin) + 2 + len(caret) + 1 + _columns(detail) <= max(self.width, 80):
            return [*shown, f"{margin}| {caret} {detail}".rstrip()]
        return [*shown, f"{margin}| {caret}", *self._labelled("note", problem.detail, margin)]

    def _window(self, line: str, start: int, stop: int, room: int) -> tuple[str, int, int]:
        """The part of a long line around the token."""
        if len(line) <= room:
            return line, start, stop
        dots = "…" if self.is_unicode else "..."
        kept = room - 2 * len(dots)
        stop = min(stop, start + max(kept - 8, 8))
        low = max(0, min(start - 8, len(line) - kept))
        high = min(len(line), low + kept)
        head, tail = (dots if low else ""), (dots if high < len(line) else "")
        moved = len(head) - low
        return f"{head}{line[low:high]}{tail}", start + moved, min(stop, high) + moved

    def _labelled(self, label: str, words: str, margin: str) -> list[str]:
        lead = f"{margin}= {label}: "
        wrapped = textwrap.wrap(
            self.clean(words),
            width=max(self.width, _NARROWEST),
            initial_indent=lead,
            subsequent_indent=" " * len(lead),
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=True,
            replace_whitespace=False,
        )
        return wrapped or [lead.rstrip()]

    def clean(self, words: str) -> str:
        """Text that can neither steer a terminal nor, where asked, leave ASCII."""
        return self._shown(words if self.is_unicode else words.translate(_ASCII))

    def _shown(self, part: str) -> str:
        return "".join(self._char(char) for char in part)

    def _char(self, char: str) -> str:
        if char == "\t":
            return " "
        if char.isprintable() and (self.is_unicode or char.isascii()):
            return char
        return escape(char)


def _columns(shown: str) -> int:
    """The width in a terminal: wide characters take two columns, combining ones none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in shown
    )


def _line_of(problem: Problem, sources: Mapping[str, str]) -> str | None:
    if problem.excerpt is not None:
        return problem.excerpt
    if problem.code[3:4] in _WITHOUT_SOURCE or problem.place.length <= 1:
        return None
    lines = sources.get(problem.place.file, "").splitlines()
    return lines[problem.place.line - 1] if problem.place.line <= len(lines) else None


def summary(problems: Sequence[Problem], counts: Counts) -> str:
    """How many problems there are, in what and how long it took, on one line."""
    files = counted(counts.files, "file")
    schedules = counted(counts.schedules, "schedule")
    took = f"{counts.took_s:.2f} s"
    if not problems:
        return f"{files}, {schedules}: no problems ({took})"
    found = [
        counted(count, word)
        for word, severity in (("error", Severity.ERROR), ("warning", Severity.WARNING), ("remark", Severity.INFO))
        if (count := _count(problems, severity))
    ]
    touched = len({problem.place.file for problem in problems})
    if touched > counts.files:
        # Directories have findings too, and are no files.
        return f"{', '.join(found)} ({files}, {schedules}, {took})"
    return f"{', '.join(found)} in {touched} of {files} ({schedules}, {took})"


def _explain(problems: Sequence[Problem]) -> str:
    if not problems:
        return ""
    explain = f"Explain:  relayctl rule {problems[0].code}"
    fixes = [problem.fix for problem in problems if problem.fix is not None]
    if not fixes:
        return f"\n{explain}"
    unsafe = "" if all(fix.is_safe for fix in fixes) else " --unsafe-fixes"
    verb = "has" if len(fixes) == 1 else "have"
    return f"\n{len(fixes)} {verb} a suggested edit:  relayctl validate --fix{unsafe}     {explain}"


def _count(problems: Sequence[Problem], severity: Severity) -> int:
    return sum(1 for problem in problems if problem.severity is severity)


def _as_mapping(problem: Problem) -> dict[str, Any]:
    place = problem.place
    return {
        "code": problem.code,
        "severity": problem.severity.value,
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "end_column": place.column + place.length,
        "path": place.path,
        "label": place.label,
        "message": problem.message,
        "detail": problem.detail,
        "help": problem.help,
        "notes": list(problem.notes),
        "excerpt": problem.excerpt,
        "fix": None if problem.fix is None else _fix(problem.fix),
    }


def _fix(fix: Fix) -> dict[str, Any]:
    edits = [
        {
            "line": edit.line,
            "column": edit.column,
            "end_line": edit.end_line,
            "end_column": edit.end_column,
            "text": edit.text,
        }
        for edit in fix.edits
    ]
    shown = [] if fix.repeats_lines else edits
    return {"description": fix.description, "is_safe": fix.is_safe, "edits": shown}
