"""What a handler prints: masked, cut into harmless lines, counted, and its end kept. Bounded whatever it prints.

Who shows the lines, and where the tail is stored, is decided by others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple
from urllib.parse import quote

TAIL_SIZE = 16 * 1024
MAX_LINE = 8 * 1024
MAX_SHOWN_BYTES = 1024 * 1024
MAX_SHOWN_LINES = 10_000
MASK = b"***"
SHORTEST_MASKED = 4
"""Shorter secrets are not masked: every other word would be."""


class Limits(NamedTuple):
    """How much is shown in full, and what is said where it was more. Up to `renew`, that is."""

    shown_bytes: int = MAX_SHOWN_BYTES
    shown_lines: int = MAX_SHOWN_LINES
    farewell: str = "[this run printed more than is shown; only its end is kept]"


OF_A_RUN = Limits()

_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_LATER_BYTES = bytes(range(0x80, 0xC0))
"""All bytes that a character of UTF-8 does not begin with."""
_HARMFUL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]")


class Masker:
    """Replaces secrets in streams of bytes. Without secrets it costs nothing."""

    def __init__(self, values: Iterable[str]) -> None:
        forms: set[bytes] = set()
        for value in values:
            forms.update(form for form in _forms(value) if len(form) >= SHORTEST_MASKED)
        self._forms = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, self._forms))) if forms else None

    def __bool__(self) -> bool:
        return self._pattern is not None

    def masked(self, data: bytes) -> bytes:
        """`data` without secrets."""
        return self._pattern.sub(MASK, data) if self._pattern is not None else data

    def held_back(self, data: bytes) -> int:
        """How many bytes at the end of `data` could be the beginning of a secret."""
        held = 0
        for form in self._forms:
            start = data.find(form[:1], max(0, len(data) - len(form) + 1))
            while start >= 0 and not form.startswith(data[start:]):
                start = data.find(form[:1], start + 1)
            if start >= 0:
                held = max(held, len(data) - start)
        return held


NO_SECRETS = Masker(())


def _forms(value: str) -> set[bytes]:
    """A secret as printed, as JSON and Python quote it, in a URL, and line by line."""
    texts = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
    texts.update((quote(value, safe=""), quote(value)))
    lines = value.splitlines()
    if len(lines) > 1:
        texts.update(line.strip() for line in lines if len(line.strip()) >= 2 * SHORTEST_MASKED)
    texts.add(value.strip())
    return {text.encode("utf-8", "surrogateescape") for text in texts}


def harmless(line: bytes) -> str:
    """A line for people's terminals: colours dropped, other control characters spelled out, bad bytes replaced."""
    text = line.decode("utf-8", "replace")
    if text.isascii() and text.isprintable():
        return text
    return _HARMFUL.sub(_spelled, _COLOURS.sub("", text))


def _spelled(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def legible(tail: bytes, *, is_cut: bool) -> tuple[str, bool]:
    """The end of an output as text in harmless lines, within 16 KiB, and whether it is not the whole.

    With `is_cut` the tail may begin within a character, of which nothing is shown.
    """
    if is_cut:
        rest = tail.lstrip(_LATER_BYTES)
        # Of a character at most three bytes can be left; more is no UTF-8 and is shown as such.
        tail = rest if len(tail) - len(rest) <= 3 else tail
    text = "\n".join(harmless(line.removesuffix(b"\r")) for line in tail.split(b"\n"))
    encoded = text.encode()
    if len(encoded) <= TAIL_SIZE:
        return text, is_cut
    return encoded[-TAIL_SIZE:].decode(errors="ignore"), True


class Tail(NamedTuple):
    """The end of what came, masked; how many line ends came in all, and whether more came than is here."""

    data: bytes
    lines: int
    is_cut: bool


NO_TAIL = Tail(b"", 0, False)


class _Stream:
    """One of the two streams: the part of a line that has no end yet, and what may be the start of a secret."""

    __slots__ = ("cut", "held", "name", "partial")

    def __init__(self, name: str) -> None:
        self.name = name
        self.partial = b""
        self.cut = 0
        self.held = b""


class Output:
    """Everything one run prints. `show` is called with the stream's name and a line, up to the limits."""

    __slots__ = (
        "_hidden",
        "_limits",
        "_line_ends",
        "_masker",
        "_show",
        "_shown_bytes",
        "_shown_lines",
        "_streams",
        "_tail",
        "_taken",
        "total",
    )

    def __init__(self, masker: Masker, show: Callable[[str, str], None], limits: Limits = OF_A_RUN) -> None:
        self._limits = limits
        self._masker = masker
        self._show = show
        self._streams = (_Stream("stdout"), _Stream("stderr"))
        self._tail = bytearray()
        self._taken = 0
        self._line_ends = 0
        self._shown_bytes = 0
        self._shown_lines = 0
        self._hidden = 0
        self.total = 0

    @property
    def unshown(self) -> int:
        """Bytes that no line was given out for."""
        return self._hidden

    @property
    def tail(self) -> bytes:
        """The last 16 KiB, masked."""
        return bytes(self._tail[-TAIL_SIZE:])

    def end(self) -> Tail:
        """The tail, with where it stands in the whole; what may yet turn out to be a secret is not in it."""
        return Tail(self.tail, self._line_ends, self._taken > TAIL_SIZE)

    def feed(self, which: int, data: bytes) -> None:
        """Take what was read of stream `which` (0 is stdout, 1 is stderr)."""
        self.total += len(data)
        stream = self._streams[which]
        if self._masker:
            data = self._masker.masked(stream.held + data)
            keep = self._masker.held_back(data)
            stream.held = data[len(data) - keep :]
            data = data[: len(data) - keep]
        self._take(stream, data)

    def renew(self) -> None:
        """Show again up to the limits, as if nothing had been shown so far."""
        self._shown_bytes = self._shown_lines = 0

    def finish(self) -> None:
        """The run has ended: give out what is still held."""
        for stream in self._streams:
            if stream.held:
                self._take(stream, stream.held)
                stream.held = b""
            if stream.partial or stream.cut:
                self._end_line(stream)

    def _take(self, stream: _Stream, data: bytes) -> None:
        self._taken += len(data)
        self._line_ends += data.count(b"\n")
        tail = self._tail
        tail += data[-TAIL_SIZE:]
        if len(tail) > 4 * TAIL_SIZE:
            del tail[:-TAIL_SIZE]
        if self._is_full:
            self._hidden += len(data)
            return
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._extend(stream, data[start:end])
            self._end_line(stream)
            start = end + 1
            if self._is_full:
                self._hidden += len(data) - start
                return
        self._extend(stream, data[start:])

    def _extend(self, stream: _Stream, part: bytes) -> None:
        room = MAX_LINE - len(stream.partial)
        stream.partial += part[:room]
        if len(part) > room:
            stream.cut += len(part) - room
            self._hidden += len(part) - room

    def _end_line(self, stream: _Stream) -> None:
        line, cut = stream.partial, stream.cut
        stream.partial, stream.cut = b"", 0
        if self._is_full:
            self._hidden += len(line)
            return
        text = harmless(line[:-1] if line.endswith(b"\r") and not cut else line)
        self._show(stream.name, f"{text} … [{cut} more bytes of this line are not shown]" if cut else text)
        self._shown_bytes += len(line)
        self._shown_lines += 1
        if self._is_full:
            self._show(stream.name, self._limits.farewell)

    @property
    def _is_full(self) -> bool:
        return self._shown_bytes >= self._limits.shown_bytes or self._shown_lines >= self._limits.shown_lines
