"""Problems as the annotation lines that a GitHub workflow shows beside the diff."""

from __future__ import annotations

from collections.abc import Sequence

from relayctl.core.problem import Problem, Severity

_KIND = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def github(problems: Sequence[Problem]) -> str:
    """One line per problem."""
    return "".join(f"{_line(problem)}\n" for problem in problems)


def _line(problem: Problem) -> str:
    place = problem.place
    words = problem.message + (f"; help: {problem.help}" if problem.help else "")
    where = (
        f"file={_property(place.file)},line={place.line},col={place.column},"
        f"endColumn={place.column + place.length},title={_property(problem.code)}"
    )
    return f"::{_KIND[problem.severity]} {where}::{_data(words)}"


def _data(text: str) -> str:
    text = "".join(char if char.isprintable() or char in "\r\n" else ascii(char)[1:-1] for char in text)
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
