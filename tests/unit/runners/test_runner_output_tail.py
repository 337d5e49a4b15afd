"""The end of an output as it is kept: within its bound, never with half a character, its place in the whole known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayctl.runners.output import NO_SECRETS, TAIL_SIZE, Masker, Output, legible


def ended(*parts: tuple[int, bytes], masker: Masker = NO_SECRETS) -> tuple[str, int, bool]:
    output = Output(masker, lambda _stream, _line: None)
    for which, data in parts:
        output.feed(which, data)
    output.finish()
    data, lines, is_cut = output.end()
    text, is_cut = legible(data, is_cut=is_cut)
    return text, lines, is_cut


def test_both_streams_as_they_came() -> None:
    assert ended((0, b"one\n"), (1, b"two\r\n"), (0, b"three")) == ("one\ntwo\nthree", 2, False)


@pytest.mark.parametrize("size", range(TAIL_SIZE - 3, TAIL_SIZE + 8))
@pytest.mark.parametrize("character", ["x", "\u00e9", "\u20ac", "\U0001f600"])
def test_a_character_is_never_cut(size: int, character: str) -> None:
    data = ("a" + character * TAIL_SIZE).encode()[: len(character.encode()) * size + 1]
    text, _, is_cut = ended((0, data))
    assert is_cut is (len(data) > TAIL_SIZE)
    assert set(text.removeprefix("a")) == {character}
    assert TAIL_SIZE - 3 <= len(text.encode()) <= TAIL_SIZE or not is_cut


def test_what_is_cut_is_told() -> None:
    text, lines, is_cut = ended((0, b"".join(b"line %04d\n" % number for number in range(3000))))
    assert is_cut
    assert (lines, text.split("\n")[-2]) == (3000, "line 2999")
    first = int(text.split("\n")[1].split()[1])
    assert lines - text.count("\n") == first - 1, "the numbers of lines count from the beginning"


def test_what_grows_when_it_is_made_harmless_stays_within_the_bound() -> None:
    text, _, is_cut = ended((0, b"\0" * TAIL_SIZE))
    assert is_cut
    assert len(text) == TAIL_SIZE
    assert text.endswith("\\x00\\x00")


def test_bytes_that_are_no_text() -> None:
    text, _, is_cut = ended((0, b"\x80" * (TAIL_SIZE + 10)))
    assert is_cut
    assert set(text) == {"\ufffd"}


def test_a_secret_at_the_edge_is_masked_and_what_may_be_one_is_held_back() -> None:
    secret = "correct horse"
    output = Output(Masker([secret]), lambda _stream, _line: None)
    output.feed(0, b"the word is correct ho")
    assert output.end().data == b"the word is "
    output.feed(0, b"rse\n" + b"x" * (TAIL_SIZE - 6))
    text, _ = legible(output.end().data, is_cut=output.end().is_cut)
    assert text.startswith("s ***\nxxx")


@given(st.lists(st.tuples(st.integers(0, 1), st.binary(max_size=400)), max_size=80))
def test_any_bytes(parts: list[tuple[int, bytes]]) -> None:
    text, lines, is_cut = ended(*parts)
    whole = b"".join(data for _, data in parts)
    assert lines == whole.count(b"\n")
    assert len(text.encode()) <= TAIL_SIZE
    assert is_cut or text.count("\n") == lines
    assert all(char.isprintable() or char in "\n\t" or ord(char) > 0x7F for char in text)
