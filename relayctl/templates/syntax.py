"""What lies behind a YAML syntax error, in own words: the cause and the way out, at the token that caused it.

It sees the text and the parser's position, not its wording, so that both parsers lead to one answer.
"""

from __future__ import annotations

import re

from relayctl.core.problem import Fix, Problem
from relayctl.templates.document import Source
from relayctl.templates.indentation import Reads, misplaced

_VALUE = re.compile(r"^[ \t]*(?:-[ \t]+)*(?:(?:[^\s#\"'\[\]{}:][^#\"'\[\]{}:]*|\"[^\"]*\"|'[^']*')[ \t]*:[ \t]+)?")
FLOW_LEAD = re.compile(r"[\[{,][ \t]*|:[ \t]+")
_FLOW_END = re.compile(r"[ \t]*[,}\]]|[ \t]+#|[ \t]*$")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}", re.ASCII)
_PLAIN_END = re.compile(r"[ \t]+#|[ \t]*$")


class SyntaxTrouble(Exception):
    """Where a parser gave up: offset, offset of what it was in, and its words (used as hints only)."""

    def __init__(self, at: int, begun: int | None, words: str) -> None:
        self.at = at
        self.begun = begun
        self.words = words
        super().__init__(words)


def diagnose(source: Source, trouble: SyntaxTrouble, reads: Reads) -> Problem:
    """The problem behind a parser's error; `reads` tells whether another text would do."""
    at = min(trouble.at, len(source.text))
    for chars in ("*", "@"):
        if (start := _leading(source, at, trouble.begun, chars)) is not None:
            return unquoted_problem(source, start)
    if (found := _tab(source, at)) is not None:
        return found
    if (start := _leading(source, at, trouble.begun, "%`")) is not None:
        return unquoted_problem(source, start)
    return _by_words(source, at, trouble) or misplaced(source, at, reads) or _vaguely(source, at, trouble)


def is_unquoted_star(source: Source, start: int) -> bool:
    """Whether the alias at `start` looks like a value that was meant to be text."""
    value, _ = _value_on_line(source, start)
    return value == start


def star_problem(source: Source, start: int, alias: str = "") -> Problem:
    """The problem of a value with a leading star, the name of an unknown anchor perhaps; the caret stands at it."""
    value, end = _value_on_line(source, start)
    if NAME.fullmatch(alias) and source.text[value:end] == f"*{alias}":
        return source.problem(
            "RLY003",
            value,
            end,
            'value starts with "*", and no anchor of that name stands above it',
            detail="YAML reads a leading * as a reference to an anchor",
            help="define the anchor above it with &, or put the value in quotes if it is text",
        )
    return _quoting(
        source,
        start,
        "RLY003",
        'value starts with "*" and must be quoted',
        "YAML reads a leading * as a reference to an anchor",
    )


def unquoted_problem(source: Source, start: int) -> Problem:
    """The problem of a value that begins with a character that YAML keeps for itself."""
    char = source.text[start]
    if char == "*":
        return star_problem(source, start)
    message = f'value starts with "{char}" and must be quoted'
    if char == "@":
        return _quoting(source, start, "RLY004", message, "YAML reserves a leading @")
    return _quoting(source, start, "RLY002", message, "YAML reserves it")


def tab_problem(source: Source, line: int, width: int) -> Problem | None:
    """The problem of a line with a tab in its indentation, each of which stands for `width` spaces."""
    text = source.line_text(line)
    indent = text[: len(text) - len(text.lstrip(" \t"))]
    if "\t" not in indent:
        return None
    start = source.line_bounds(line)[0]
    end = start + len(indent)
    return source.problem(
        "RLY005",
        start + indent.index("\t"),
        end,
        "a tab in the indentation; YAML takes spaces only",
        help="replace each tab by spaces",
        fix=source.replace(start, end, indent.replace("\t", " " * width), "tabs to spaces", is_safe=True),
    )


def _quoting(source: Source, start: int, code: str, message: str, detail: str) -> Problem:
    value, end = _value_on_line(source, start)
    start = min(value, start)
    raw = source.text[start:end]
    before = source.text[source.line_bounds(source.lines_before(start))[0] : start]
    key = re.split(r"[\s{,]", before.strip().removeprefix("- ").strip())[-1]
    # Only a value that cannot be a secret is repeated.
    form = f'{key} "{raw}"' if key in ("cron:", "every:") and '"' not in raw else f'{key} "…"'
    return source.problem(
        code,
        start,
        end,
        message,
        detail=detail,
        help=f"put it in quotes:  {form.strip()}",
        fix=_in_quotes(source, start, end),
    )


def _in_quotes(source: Source, start: int, end: int) -> Fix | None:
    raw = source.text[start:end]
    quote = next((quote for quote in ('"', "'") if quote not in raw and (quote == "'" or "\\" not in raw)), None)
    return source.enclose(start, end, quote) if quote is not None else None


def value_start(source: Source, begin: int, end: int) -> int:
    """Where the value begins on the line between two offsets: behind dashes and a key."""
    found = _VALUE.match(source.text[begin:end])
    return begin + (found.end() if found is not None else 0)


def _value_on_line(source: Source, offset: int) -> tuple[int, int]:
    """Where the value on the line of `offset` starts and ends, comment excluded."""
    begin, line_end = source.line_bounds(source.lines_before(offset))
    line = source.text[begin:line_end]
    start = min(value_start(source, begin, line_end), offset) - begin
    end = _PLAIN_END.search(line, start)
    stop = end.start() if end is not None else len(line)
    if start < offset - begin and line[start : start + 1] in ("{", "["):
        # Inside a flow collection the value begins behind the last mark that can precede one.
        start = max(found.end() for found in FLOW_LEAD.finditer(line, start, offset - begin + 1))
        closing = _FLOW_END.search(line, start)
        stop = closing.start() if closing is not None else len(line)
    elif line[:stop].endswith((",", "]", "}")) and _unclosed(source.text, begin) is not None:
        # So it does where the collection was opened on a line above.
        closing = _FLOW_END.search(line, start)
        stop = closing.start() if closing is not None else stop
    return begin + start, begin + max(stop, start + 1)


def _leading(source: Source, at: int, begun: int | None, chars: str) -> int | None:
    """The offset of a value that starts with one of `chars` on the line of the error, or where it was begun."""
    for offset in (begun, at, at - 1):
        if offset is None or not 0 <= offset <= len(source.text):
            continue
        if offset < len(source.text) and source.text[offset] in chars:
            value, _ = _value_on_line(source, offset)
            return value if source.text[value] in chars else offset
        value, _ = _value_on_line(source, offset)
        if value < len(source.text) and source.text[value] in chars:
            return value
    return None


def _tab(source: Source, at: int) -> Problem | None:
    line = source.lines_before(at)
    lines = (number for number in (line, line - 1) if number >= 1 and "\t" in source.line_text(number))
    return next((found for number in lines if (found := tab_problem(source, number, tab_width(source)))), None)


def tab_width(source: Source) -> int:
    """How many spaces a tab stands for: with so many the most lines stand where their neighbours or others do."""
    indents = [found.group() for found in re.finditer(r"^[ \t]*(?=[^ \t\r\n])", source.text, re.MULTILINE)]
    plain = {len(indent) for indent in indents if "\t" not in indent}
    above = ""
    tabbed: list[tuple[str, int]] = []
    for indent in indents:
        if "\t" in indent:
            tabbed.append((indent, len(above)))
        else:
            above = indent

    def fits(width: int) -> int:
        meant = [(len(indent.replace("\t", " " * width)), neighbour) for indent, neighbour in tabbed]
        return sum((place in plain) + (place == neighbour) for place, neighbour in meant)

    return max((2, 4, 8), key=lambda width: (fits(width), -width))


def _by_words(source: Source, at: int, trouble: SyntaxTrouble) -> Problem | None:
    """Where the parser's words leave no doubt."""
    words = trouble.words
    begun = trouble.begun
    if "quoted scalar" in words and "end of stream" in words and begun is not None:
        return source.problem("RLY002", begun, begun + 1, "this quote is never closed", help="close the quote")
    if "unknown escape" in words:
        return source.problem(
            "RLY002",
            max(at - 1, 0),
            at + 1,
            "an escape that YAML does not know, in double quotes",
            help="write \\\\ for a backslash, or use single quotes",
        )
    if "flow sequence" in words and begun is not None:
        return source.problem("RLY002", begun, begun + 1, 'this "[" is not closed properly', help='add the missing "]"')
    if "flow mapping" in words and begun is not None:
        return source.problem("RLY002", begun, begun + 1, 'this "{" is not closed properly', help='add the missing "}"')
    opened = _unclosed(source.text, at)
    if opened is not None and not source.text[at:].strip():
        mark = source.text[opened]
        missing = {"[": "]", "{": "}"}[mark]
        return source.problem(
            "RLY002", opened, opened + 1, f'this "{mark}" is not closed properly', help=f'add the missing "{missing}"'
        )
    return None


def _unclosed(text: str, at: int) -> int | None:
    """The nearest bracket before an offset that nothing closes."""
    depth = 0
    for offset in range(min(at, len(text)) - 1, -1, -1):
        if text[offset] in "]}":
            depth += 1
        elif text[offset] in "[{":
            if not depth:
                return offset
            depth -= 1
    return None


def _vaguely(source: Source, at: int, trouble: SyntaxTrouble) -> Problem:
    if "mapping values are not allowed" in trouble.words:
        return source.problem(
            "RLY002",
            at,
            at + 1,
            "a key is not allowed here",
            detail='a second ": " in one value, or a line indented too far',
            help="quote the value, or line the key up with its neighbours",
        )
    if at < len(source.text) and source.text[at] in "&!|>{}[],?-":
        return _unexpected(source, at)
    return source.problem(
        "RLY002",
        at,
        at + 1,
        "this is not valid YAML",
        detail="the parser cannot go on here",
        help="check indentation, quotes and the line before",
    )


def _unexpected(source: Source, at: int) -> Problem:
    return source.problem(
        "RLY002",
        at,
        at + 1,
        f'an unexpected "{source.text[at]}"',
        detail="the parser cannot go on here",
        help="quote the value if it is text; check indentation and the line before",
    )
