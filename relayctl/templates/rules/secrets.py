"""Family 6: secrets in templates, and the masking of what any problem shows of them. It never repeats a value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from relayctl.core.counting import counted
from relayctl.core.problem import Problem
from relayctl.templates.document import Document, PathPart, ScalarNode
from relayctl.templates.rules.engine import Case
from relayctl.templates.secretshapes import (
    SecretKind,
    hides_next,
    hides_rest,
    keeps_values,
    promises_secret,
    secret_in,
)
from relayctl.templates.textmask import worded

MASK = "********"
_CODES = {
    SecretKind.TOKEN: "RLY601",
    SecretKind.NAMED: "RLY601",
    SecretKind.URL: "RLY602",
    SecretKind.KEY: "RLY603",
}


def check(case: Case) -> Iterator[Problem]:
    """RLY601 to RLY604."""
    for path, key, node in case.document.scalars():
        kind = _kind(path, key, node)
        if kind is None:
            continue
        name = key.text if key is not None else "the value"
        yield case.report(
            _CODES[kind],
            node,
            path,
            f"{_where(path)} {kind.value}",
            detail="keep secrets out of templates",
            help=_way_out(path, name),
        )
    for comment in case.document.comments():
        kind = secret_in("", comment.text)
        if kind is not None:
            node = ScalarNode(comment.start, comment.end, comment.text, "", comment.text)
            yield case.report(
                "RLY604",
                node,
                (),
                "a comment holds what looks like a secret",
                detail=f"1 comment that {kind.value}",
                help="remove it, and replace the secret: it is in the history already",
            )


def _kind(path: tuple[PathPart, ...], key: ScalarNode | None, node: ScalarNode) -> SecretKind | None:
    # A cron expression, a name or a handler has its own rules and is no place for a secret by name.
    name = key.text if key is not None else ""
    if isinstance(node.value, bool) or node.value is None:
        return None
    if path and path[0] == "secrets":
        return secret_in("", node.text)
    return secret_in(name, node.text)


def _where(path: tuple[PathPart, ...]) -> str:
    if path and path[0] == "env":
        return "env value"
    return "the reference" if path and path[0] == "secrets" else "the value"


def _way_out(path: tuple[PathPart, ...], name: str) -> str:
    if path and path[0] == "secrets":
        return "write the name of a stored secret here, and store the value with  relayctl secret set"
    reference = (
        "".join(char if char.isascii() and char.isalnum() else "-" for char in name.lower()).strip("-") or "name"
    )
    if path and path[0] == "env":
        return f"move it out:  secrets: {{{name}: {reference}}}   then  relayctl secret set {reference}"
    return "move it into a secret that the handler reads from its environment"


def masked(document: Document, problems: list[Problem]) -> list[Problem]:
    """The problems with every value of env and secrets, and all that looks secret, hidden in the lines shown."""
    if not problems:
        return problems
    spans = hidden_spans(document)
    return [worded(_mask(document, problem, spans)) for problem in problems]


def hidden_spans(document: Document) -> list[tuple[int, int]]:
    """Offsets of every value that is not for everybody's eyes, in order."""
    spans = []
    before: tuple[tuple[PathPart, ...], str] = ((), "")
    for path, key, node in document.scalars():
        if _is_private(path) or _is_told_by(before, path, node) or _kind(path, key, node) is not None:
            spans.append((node.start, node.end))
        before = path, node.text
    spans.extend(
        (comment.start, comment.end) for comment in document.comments() if secret_in("", comment.text) is not None
    )
    return sorted(span for span in spans if span[1] > span[0])


def _is_private(path: tuple[PathPart, ...]) -> bool:
    """Whether the keys above a value say that it is an environment value or a secret, wherever they stand."""
    keys = [part for part in path if isinstance(part, str)]
    return any(keeps_values(key) for key in keys) or (bool(keys) and promises_secret(keys[-1]))


def _is_told_by(before: tuple[tuple[PathPart, ...], str], path: tuple[PathPart, ...], node: ScalarNode) -> bool:
    """Whether a word of a list, or the word before it, says that it is a secret."""
    if not path or not isinstance(path[-1], int):
        return False
    is_next = before[0] == (*path[:-1], path[-1] - 1)
    return hides_rest(node.text) or (is_next and hides_next(before[1]))


def _mask(document: Document, problem: Problem, spans: list[tuple[int, int]]) -> Problem:
    if problem.excerpt is None:
        return problem
    begin, end = document.source.line_bounds(problem.place.line)
    text = problem.excerpt
    place = problem.place
    caret = begin + place.column - 1
    for start, stop in reversed(spans):
        low, high = max(start, begin), min(stop, end)
        if low >= high:
            continue
        hidden = "*" * (high - low)
        if start <= caret < stop and not text[high - begin :].strip():
            # The length helps to recognise it; only at the end of the line can the text around it move.
            hidden = f"{MASK} ({counted(stop - start, 'character')})"
            place = replace(place, column=low - begin + 1, length=len(MASK))
        text = text[: low - begin] + hidden + text[high - begin :]
    return replace(problem, excerpt=text, place=place)
