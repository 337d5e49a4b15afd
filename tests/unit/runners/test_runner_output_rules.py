"""Masking, cutting and counting of output, byte by byte."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayctl.runners.output import MAX_LINE, TAIL_SIZE, Masker, Output, harmless

SECRET = "p@ss w\u00f6rd/1"


def fed(masker: Masker, *parts: tuple[int, bytes]) -> tuple[Output, list[tuple[str, str]]]:
    lines: list[tuple[str, str]] = []
    output = Output(masker, lambda stream, line: lines.append((stream, line)))
    for which, data in parts:
        output.feed(which, data)
    output.finish()
    return output, lines


@given(st.lists(st.tuples(st.integers(0, 1), st.binary(max_size=40)), max_size=30))
def test_nothing_is_lost_however_it_is_cut(parts: list[tuple[int, bytes]]) -> None:
    output, lines = fed(Masker(()), *parts)
    whole = b"".join(data for _, data in parts)
    assert output.total == len(whole)
    assert output.tail == whole[-TAIL_SIZE:]
    for which, name in enumerate(("stdout", "stderr")):
        text = b"".join(data for stream, data in parts if stream == which)
        expected = text.split(b"\n")
        if not expected[-1]:
            expected.pop()
        cleaned = [harmless(line.removesuffix(b"\r")) for line in expected]
        assert [line for stream, line in lines if stream == name] == cleaned


@given(st.lists(st.integers(1, 25), max_size=12), st.integers(0, 1))
def test_a_secret_is_masked_however_it_is_cut(cuts: list[int], which: int) -> None:
    text = f"start {SECRET} middle {SECRET}{SECRET} p@ss end".encode()
    parts, rest = [], text
    for cut in cuts:
        parts.append((which, rest[:cut]))
        parts.append((1 - which, b"-"))
        rest = rest[cut:]
    parts.append((which, rest))
    output, lines = fed(Masker([SECRET]), *parts)
    shown = "".join(line for stream, line in lines if stream == ("stdout", "stderr")[which])
    assert shown == "start *** middle ****** p@ss end"
    assert "w\u00f6rd".encode() not in output.tail


@pytest.mark.parametrize(
    "shown", [SECRET, json.dumps(SECRET), repr(SECRET), "p%40ss%20w%C3%B6rd%2F1", SECRET + "\n" + SECRET]
)
def test_forms_of_a_secret(shown: str) -> None:
    assert b"rd" not in Masker([SECRET]).masked(shown.encode())


def test_lines_of_a_secret_with_lines() -> None:
    key = "-----BEGIN KEY-----\nabcdefghijkl\nmnopqrstuvwx\n-----END KEY-----\n"
    _, lines = fed(Masker([key]), (0, b"loaded abcdefghijkl\n"), (0, key.encode()))
    assert not any("mnop" in line or "abcd" in line for _, line in lines)


def test_long_secrets_cost_little() -> None:
    masker = Masker(["A" + "bcdefgh\\" * 600])
    began = time.process_time()
    fed(masker, *[(0, b"Abcdefgi" * 8000)] * 100)
    assert time.process_time() - began < 1.0


def test_empty_and_tiny_secrets_mask_nothing() -> None:
    assert not Masker(["", "a", "abc"])


def test_line_of_exactly_the_limit() -> None:
    _, lines = fed(Masker(()), (0, b"x" * MAX_LINE + b"\n"))
    assert lines == [("stdout", "x" * MAX_LINE)]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b[2J\x1b]0;t\x07", "\\x1b[2J\\x1b]0;t\\x07"),
        (b"10%\r20%", "10%\\x0d20%"),
        ("\u202egnp.exe \u2028".encode(), "\\u202egnp.exe \\u2028"),
        ("caf\u00e9 \U0001f40d\t.".encode(), "caf\u00e9 \U0001f40d\t."),
        (b"\xc2\x9b31m", "\\x9b31m"),
    ],
)
def test_harmless(line: bytes, shown: str) -> None:
    assert harmless(line) == shown


@given(st.binary(max_size=200))
def test_harmless_lines_hold_no_control_characters(line: bytes) -> None:
    assert not any(char != "\t" and (ord(char) < 32 or 127 <= ord(char) < 160) for char in harmless(line))
