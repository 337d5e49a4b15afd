"""Comments that silence what a file has now, as fixes: `--add-ignores`. It gives no reasons; those are a person's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from relayctl.core.problem import Edit, Fix, Problem
from relayctl.templates.document import Comment, Document, ScalarNode, Source
from relayctl.templates.rules.registry import BY_CODE


def with_ignores(document: Document, problems: Sequence[Problem], wants: Callable[[Problem], bool]) -> list[Problem]:
    """The same problems with a comment as the fix of each that `wants` takes and a comment may silence.

    One comment serves a line: its first problem carries it.
    """
    lines: dict[int, list[str]] = {}
    for problem in problems:
        if wants(problem) and BY_CODE[problem.code].can_be_ignored and problem.code[3] != "9":
            codes = lines.setdefault(problem.place.line, [])
            if problem.code not in codes:
                codes.append(problem.code)
    told: set[int] = set()
    found = []
    for problem in problems:
        line = problem.place.line
        fix = None
        if line not in told and problem.code in lines.get(line, ()):
            told.add(line)
            words = ", ".join(lines[line])
            fix = Fix(description=f"ignore {words}", edits=(_comment(document, line, lines[line]),), is_safe=True)
        found.append(replace(problem, fix=fix))
    return found


def _comment(document: Document, line: int, codes: list[str]) -> Edit:
    source = document.source
    there = next((comment for comment in _around(document, line) if "ignore[" in comment.text), None)
    if there is not None:
        return source.insert(source.text.index("[", there.start) + 1, "".join(f"{code}, " for code in codes))
    text = f"# relay: ignore[{', '.join(codes)}]"
    begin, end = source.line_bounds(line)
    if any(source.lines_before(comment.start) == line for comment in document.comments()) or _goes_on(document, line):
        words = source.line_text(line)
        indent = words[: len(words) - len(words.lstrip(" "))]
        return source.insert(begin, f"{indent}{text}{source.newline}")
    return source.insert(end, f"  {text}")


def _around(document: Document, line: int) -> list[Comment]:
    """The comments that speak for a line: on it, or alone right above it."""
    found = []
    for comment in document.comments():
        own = document.source.lines_before(comment.start)
        if own == line or (comment.is_alone and own < line and _only_comments(document.source, own + 1, line)):
            found.append(comment)
    return found


def _only_comments(source: Source, first: int, last: int) -> bool:
    return all(
        source.line_text(line).strip().startswith("#") or not source.line_text(line).strip()
        for line in range(first, last)
    )


def _goes_on(document: Document, line: int) -> bool:
    """Whether a value reaches over the end of the line, so that nothing can stand behind it."""
    end = document.source.line_bounds(line)[1]
    return any(_is_over(part, end) for _, key, node in document.scalars() for part in (key, node) if part is not None)


def _is_over(node: ScalarNode, offset: int) -> bool:
    return node.start <= offset < node.end
