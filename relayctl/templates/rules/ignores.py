"""Family 9: `# relay: ignore[RLY207] reason`, at the end of a line or alone on the line above it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from relayctl.core.problem import Fix, Problem, Severity
from relayctl.templates.document import Comment, Document
from relayctl.templates.rules.registry import BY_CODE

_ANY = re.compile(r"#\s*relay\s*:\s*ignore", re.IGNORECASE)
_FORM = re.compile(r"# ?relay: ignore\[([^\]]*)\](.*)")
_ELSEWHERE = frozenset({"RLY503"})
"""Judged against other apps, so that one file cannot say an ignore of them is unused."""


@dataclass(slots=True, kw_only=True)
class _Ignore:
    comment: Comment
    codes: tuple[str, ...]
    line: int
    used: set[str] = field(default_factory=set)


def apply(
    document: Document, problems: list[Problem], *, needed: Sequence[Problem] = (), is_complete: bool = True
) -> list[Problem]:
    """The problems that no comment silences, and what is wrong with the comments.

    `needed` are errors without whose cure there is no app: silenced, the app would be gone without a word.
    `is_complete` False: rules were left out, so that an ignore of theirs is not unused.
    """
    if _ANY.search(document.source.text) is None:
        return problems
    ignores: list[_Ignore] = []
    own: list[Problem] = []
    for comment in document.comments():
        if _ANY.match(comment.text) is not None:
            own.extend(_read(document, comment, ignores))
    kept = []
    for problem in problems:
        by = _silencer(ignores, problem)
        if by is None:
            kept.append(problem)
            continue
        by.used.add(problem.code)
        if problem in needed:
            kept.append(problem)
            own.append(_say(document, by.comment, "RLY904", *_cannot(problem.code)))
    # With errors in the file some rules were not asked, and an ignore of them is not unused.
    if is_complete and not any(problem.is_error for problem in problems):
        own.extend(_unused(document, ignores))
    return kept + own


def silenced(document: Document, problem: Problem) -> bool:
    """Whether a comment of the document silences this one problem."""
    return problem not in apply(document, [problem], is_complete=False)


def _silencer(ignores: list[_Ignore], problem: Problem) -> _Ignore | None:
    if not BY_CODE[problem.code].can_be_ignored:
        return None
    return next(
        (ignore for ignore in ignores if ignore.line == problem.place.line and problem.code in ignore.codes), None
    )


def _read(document: Document, comment: Comment, ignores: list[_Ignore]) -> Iterator[Problem]:
    found = _FORM.match(comment.text)
    codes = [code.strip() for code in found[1].split(",")] if found is not None else []
    if found is None or not any(codes):
        yield _say(
            document, comment, "RLY904", "this ignore names no rule in the form it takes", "1 comment without effect"
        )
        return
    good = []
    for code in codes:
        rule = BY_CODE.get(code)
        if rule is None:
            yield _unknown(document, comment, code)
        elif not rule.can_be_ignored:
            yield _say(document, comment, "RLY904", *_cannot(code))
        else:
            good.append(code)
    if not found[2].strip():
        yield _say(document, comment, "RLY902", "this ignore gives no reason", "the next reader will ask")
    if good:
        ignores.append(_Ignore(comment=comment, codes=tuple(good), line=_target(document, comment)))


def _cannot(code: str) -> tuple[str, str]:
    rule = BY_CODE[code]
    if rule.is_of_plan:
        reason = "is found in the fleet by 1 command, relayctl plan"
    elif rule.code[3] == "7":
        reason = "is about the directory, and no line of a file"
    elif rule.code[3] == "6":
        reason = "is about a secret, which is no file's to keep"
    else:
        reason = "is an error in any case" if rule.severity is Severity.ERROR else "has 1 cure, which keeps the meaning"
    return f"{code} cannot be ignored", f"{rule.name} {reason}"


def _target(document: Document, comment: Comment) -> int:
    line = document.source.lines_before(comment.start)
    if not comment.is_alone:
        return line
    last = document.source.lines_before(len(document.source.text))
    while line < last:
        line += 1
        text = document.source.line_text(line).strip()
        if text and not text.startswith("#"):
            break
    return line


def _unknown(document: Document, comment: Comment, code: str) -> Problem:
    from relayctl.templates.keys import closest

    near = closest(code, [known.lower() for known in BY_CODE], 0.8)
    hint = f'did you mean "{near.upper()}"?' if near is not None else "`relayctl rule --all` lists the codes"
    return _say(document, comment, "RLY903", f'no rule has the code "{code[:40]}"', "nothing is ignored by it", hint)


def _unused(document: Document, ignores: list[_Ignore]) -> Iterator[Problem]:
    for ignore in ignores:
        idle = [code for code in ignore.codes if code not in ignore.used and code not in _ELSEWHERE]
        if idle:
            yield _say(
                document,
                ignore.comment,
                "RLY901",
                f"this ignore silences nothing: {', '.join(idle)} did not occur on line {ignore.line}",
                f"{len(idle)} unused",
                "remove it",
                fix=_removal(document, ignore, idle),
            )


def _removal(document: Document, ignore: _Ignore, idle: list[str]) -> Fix:
    """Takes the idle codes out of the comment, or the comment with what only it needs: its line, or its blanks."""
    source, comment = document.source, ignore.comment
    left = [code for code in ignore.codes if code not in idle]
    if left:
        opening, closing = (source.text.index(mark, comment.start) for mark in "[]")
        return source.replace(opening + 1, closing, ", ".join(left), "leave the others", is_safe=True)
    line = source.lines_before(comment.start)
    begin = source.line_bounds(line)[0]
    if comment.is_alone:
        return source.replace(begin, source.end_of_line(line), "", "remove the comment", is_safe=True)
    start = begin + len(source.text[begin : comment.start].rstrip(" \t"))
    return source.replace(start, comment.end, "", "remove the comment", is_safe=True)


def _say(
    document: Document,
    comment: Comment,
    code: str,
    message: str,
    detail: str,
    hint: str = "",
    *,
    fix: Fix | None = None,
) -> Problem:
    return document.source.problem(
        code,
        comment.start,
        comment.end,
        message,
        detail=detail,
        help=hint or "write  # relay: ignore[RLY207] reason",
        fix=fix,
        severity=BY_CODE[code].severity,
    )
