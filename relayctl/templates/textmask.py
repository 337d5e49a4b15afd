"""Hides secrets in the line a problem shows where the file could not be read into a tree: by indentation and by shape.

It hides rather too much than too little; lengths are kept, so that carets stay right.
"""

from __future__ import annotations

import re
from dataclasses import replace

from relayctl.core.problem import Problem
from relayctl.templates.document import Source
from relayctl.templates.secretshapes import keeps_values, promises_secret, secret_in

_ENTRY = re.compile(r"^([ \t]*(?:-[ \t]+)*)([^\s:#][^:#]*?)[ \t]*:(?:[ \t]+|$)")
_KEY = re.compile(r"([A-Za-z0-9_.-]{2,80})[\"']?[ \t]*[:=,]")
"""A key anywhere in a line, or a word of a command with its value behind it."""
_HIDING = frozenset({"env", "secrets", '"env"', '"secrets"', "'env'", "'secrets'"})
_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY")
_END = re.compile(r"-----END [A-Z0-9 ]*PRIVATE KEY")


def without_secrets(source: Source, problem: Problem) -> Problem:
    """The problem with its line made safe to show."""
    if problem.excerpt is None:
        return problem
    return replace(problem, excerpt=safe_line(source, problem.place.line, problem.excerpt))


def safe_line(source: Source, line: int, text: str) -> str:
    """A line of the source, with stars for what may be secret."""
    if _is_in_private_key(source, line):
        return _stars(text, 0)
    entry = _ENTRY.match(text)
    if entry is not None and entry[2] in _HIDING:
        return _stars(text, entry.end())
    if _is_in_hiding_block(source, line, text):
        return _stars(text, entry.end() if entry is not None else len(text) - len(text.lstrip()))
    told = next((found for found in _KEY.finditer(text) if _tells(found[1])), None)
    if told is not None:
        return _stars(text, told.end())
    return _stars(text, 0) if secret_in("", text) is not None else text


def _tells(word: str) -> bool:
    return keeps_values(word) or promises_secret(word)


def _stars(text: str, start: int) -> str:
    return text[:start] + re.sub(r"\S", "*", text[start:])


def _is_in_hiding_block(source: Source, line: int, text: str) -> bool:
    indent = len(text) - len(text.lstrip())
    for number in range(line - 1, 0, -1):
        above = source.line_text(number)
        if not above.strip() or above.lstrip().startswith("#"):
            continue
        depth = len(above) - len(above.lstrip())
        if depth < indent or (depth == 0 and indent == 0):
            entry = _ENTRY.match(above)
            if depth == 0:
                return entry is not None and entry[2] in _HIDING and (indent > 0 or _ENTRY.match(text) is None)
            indent = depth
    return False


def _is_in_private_key(source: Source, line: int) -> bool:
    before = source.text[: source.line_bounds(line)[1]]
    begins = [found.start() for found in _BEGIN.finditer(before)]
    if not begins:
        return False
    end = _END.search(before, begins[-1])
    return end is None or source.lines_before(end.start()) >= line
