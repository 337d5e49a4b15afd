"""Bytes to nodes: values by the core schema, places to the character, and own words for what cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from relayctl.templates.document import Document
from relayctl.templates.read import fastest_events, pure_events, read


def _value(text: str) -> dict[str, Any]:
    found = read(text.encode(), "t.yaml")
    assert isinstance(found, Document), found
    return found.value


def _codes(text: str | bytes) -> list[str]:
    found = read(text if isinstance(text, bytes) else text.encode(), "t.yaml")
    assert isinstance(found, list)
    return [problem.code for problem in found]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("on", "on"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("017", 17),
        ("0o17", 15),
        ("0x1F", 31),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-3", -3),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2026-09-29", "2026-09-29"),
        ("12345678901234567890", 12345678901234567890),
        ("'7'", "7"),
        ('"a\\tb"', "a\tb"),
        ("nullable", "nullable"),
        ("+1", 1),
        ("1.", 1.0),
        (".", "."),
        ("-", ["-"]),
        ("0b1", "0b1"),
    ],
)
def test_core_schema(text: str, value: object) -> None:
    if value == ["-"]:
        assert _value("a:\n  - '-'\n")["a"] == value
        return
    found = _value(f"a: {text}\n")["a"]
    assert found == value
    assert type(found) is type(value)


def test_places_count_characters_whatever_stands_before() -> None:
    lines = [
        "# é 日本 \U0001f600",
        "a: 'ü' # x",
        "b: |",
        "  block",
        "",
        "c: [x, yé]",
        "d:",
        "  # between",
        "  wrong: 1",
    ]
    for ending in ("\n", "\r\n"):
        for mark in (b"", b"\xef\xbb\xbf"):
            found = read(mark + ending.join(lines).encode(), "t.yaml")
            assert isinstance(found, Document)
            key, node = found.at(("d", "wrong"))
            assert key is not None
            assert found.source.position(key.start) == (9, 3)
            assert found.source.position(node.start) == (9, 10)
            assert found.source.position(found.at(("c", 1))[1].start) == (6, 8)


def test_merge_keys() -> None:
    head = "a: &a {timeout: 20s, x: 1}\nb: &b {retries: 2, x: 2}\n"
    assert _value(f"{head}c: {{<<: *a, y: 3}}\n")["c"] == {"timeout": "20s", "x": 1, "y": 3}
    assert _value(f"{head}c: {{<<: [*a, *b], timeout: 1s}}\n")["c"] == {"timeout": "1s", "x": 1, "retries": 2}
    assert _codes(f"{head}c:\n  <<: *a\n  <<: *b\n") == ["RLY006"]
    assert _codes("c: {<<: 3}\n") == ["RLY103"]
    refused = read(f"{head}c: {{<<: *a, <<: *b}}\n".encode(), "t.yaml")
    assert isinstance(refused, list)
    assert "<<: [*a, *b]" in refused[0].help
    assert _value('c: {"<<": 3}\n')["c"] == {"<<": 3}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "RLY015"),
        ("# only a comment\n", "RLY015"),
        ("---\n...\n", "RLY015"),
        ("null\n", "RLY015"),
        ("- a\n", "RLY103"),
        ("text\n", "RLY103"),
        ("a: 1\n---\nb: 1\n", "RLY007"),
        ("a: 1\na: 2\n", "RLY006"),
        ("%YAML 1.1\n---\na: 1\n", "RLY011"),
        ("%TAG ! tag:x,2000:\n---\na: 1\n", "RLY011"),
        ("a: !!python/object/apply:os.system ['true']\n", "RLY012"),
        ("a: !Ref x\n", "RLY012"),
        ("a: !!str 1\n", "RLY012"),
        ("a: .inf\n", "RLY104"),
        ("a: 1e999\n", "RLY104"),
        ("a: &a [*a]\n", "RLY013"),
        ("cron: */5 * * * *\n", "RLY003"),
        ("cron: * * * * *\n", "RLY003"),
        ("- cron: *\n", "RLY003"),
        ("cron: @daily\n", "RLY004"),
        ("a:\n\tb: 1\n", "RLY005"),
        ("a: 'x\n", "RLY002"),
        ("a: [1\n", "RLY002"),
        ('a: "\\ud800"\n', "RLY002"),
        (b"a: \xff\n", "RLY001"),
        (b"\xff\xfea\0", "RLY001"),
        ("a: \x00\n", "RLY001"),
        ("a: \x07\n", "RLY001"),
        (b"a: " + b"x" * (1 << 20), "RLY001"),
        ("a: " + "[" * 5000, "RLY002"),
        ("a: " + "{b: " * 5000, "RLY002"),
        ("a:\n" + "".join(" " * n + "- \n" for n in range(1, 300)) + " " * 300 + "- x\n", "RLY002"),
        ("? [a]\n: b\n", "RLY103"),
        ("a: " + "9" * 5000, "RLY104"),
    ],
)
def test_refusals(text: str | bytes, code: str) -> None:
    assert _codes(text) == [code]


def test_an_alias_bomb_is_refused_before_it_is_expanded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert _codes("\n".join(lines)) == ["RLY013"]


def test_a_star_is_shown_at_the_value() -> None:
    for text, column in (("cron: */5 * * * *\n", 7), ("x: {a: 1, cron: */5 * * * *}\n", 17)):
        for events in (fastest_events, pure_events):
            found = read(text.encode(), "t.yaml", events=events)
            assert isinstance(found, list)
            place = found[0].place
            assert (found[0].code, place.line, place.column, place.length) == ("RLY003", 1, column, 11)


def test_a_reference_to_no_anchor_is_told_both_ways_out() -> None:
    for text in ("a: {<<: *shared}\n", "a:\n  <<: *shared\n", "a: *shared\n", "- *shared\n"):
        found = read(text.encode(), "t.yaml")
        assert isinstance(found, list)
        assert found[0].code == "RLY003"
        assert "anchor" in found[0].help
        assert "quotes" in found[0].help


def test_a_value_that_may_be_a_secret_is_not_repeated() -> None:
    secret = "*hunter2-" + "zZ9" * 8
    for text in (
        f"env: {{A: {secret}}}\n",
        f"env:\n  A: {secret}\n",
        f"env:\n  A: @{secret}\n",
        f"secrets:\n  A: 'x {secret}\n",
    ):
        found = read(text.encode(), "t.yaml")
        assert isinstance(found, list)
        assert "hunter2" not in repr(found), found


def test_yaml_that_the_c_parser_refuses_is_read_by_the_pure_one() -> None:
    assert _value("env: {A: http://x/y, AT: 12:30}\n") == {"env": {"A": "http://x/y", "AT": "12:30"}}
