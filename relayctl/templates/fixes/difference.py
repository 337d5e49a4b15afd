"""What fixes change in a file, as a unified diff in which values that may be secret are hidden."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import pairwise

from relayctl.templates.document import Document, Source
from relayctl.templates.fixes.edits import text_of
from relayctl.templates.read import read
from relayctl.templates.rules.secrets import hidden_spans
from relayctl.templates.textmask import LineMask

_CONTEXT = 3
_LINE_END = re.compile(r"\r\n|\n|\r")


def difference(file: str, old: bytes, new: bytes) -> str:
    """The diff of two states of a file. Lines are compared as they are and shown as they may be."""
    before, after = _lines(old), _lines(new)
    shown_before, shown_after = _shown(old, file), _shown(new, file)
    parts = [f"--- {file}\n", f"+++ {file}\n"]
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        (_, first, _, start, _), (_, _, last, _, stop) = group[0], group[-1]
        parts.append(f"@@ -{_range(first, last)} +{_range(start, stop)} @@\n")
        for kind, low, high, new_low, new_high in group:
            if kind == "equal":
                parts += _marked(" ", before[low:high], shown_before[low:high])
            else:
                parts += _marked("-", before[low:high], shown_before[low:high])
                parts += _marked("+", after[new_low:new_high], shown_after[new_low:new_high])
    return "".join(parts)


def _lines(data: bytes) -> list[str]:
    """Lines with their ends, cut where the reader of templates cuts them."""
    _, text = text_of(data)
    ends = [found.end() for found in _LINE_END.finditer(text)]
    bounds = [0, *ends] if ends[-1:] == [len(text)] or not text else [0, *ends, len(text)]
    return [text[low:high] for low, high in pairwise(bounds)]


def _shown(data: bytes, file: str) -> list[str]:
    """The same lines without their ends, and with stars for what may be secret."""
    _, text = text_of(data)
    document = read(data, file)
    if isinstance(document, Document):
        chars = list(text)
        for start, end in hidden_spans(document):
            inner = (start + 1, end - 1) if text[start] in "'\"" and end - start > 1 else (start, end)
            chars[slice(*inner)] = ["*" if char.strip() else char for char in text[slice(*inner)]]
        return _LINE_END.split("".join(chars))
    mask = LineMask(Source(file=file, text=text))
    return [mask.safe(number, line) for number, line in enumerate(_LINE_END.split(text), 1)]


def _range(start: int, stop: int) -> str:
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _marked(mark: str, lines: list[str], shown: list[str]) -> Iterator[str]:
    for line, words in zip(lines, shown, strict=True):
        end = line[len(line.rstrip("\r\n")) :]
        yield f"{mark}{words}{end}" if end else f"{mark}{words}\n\\ No newline at end of file\n"
