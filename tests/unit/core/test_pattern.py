"""What a pattern matches, what it refuses, and what it says when an event does not match."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from relayctl.core.pattern import Pattern, PatternError

NOW = datetime(2026, 9, 29, 10, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("pattern", "event", "expected"),
    [
        ({"kind": ["a", "b"]}, {"kind": "b"}, True),
        ({"kind": ["a", "b"]}, {"kind": "c"}, False),
        ({"kind": ["a"]}, {}, False),
        ({"a": [1], "b": [2]}, {"a": 1, "b": 2}, True),
        ({"a": [1], "b": [2]}, {"a": 1, "b": 3}, False),
        ({"a": {"b": [1], "c": [2]}}, {"a": {"b": 1, "c": 2}}, True),
        ({"a": {"b": [1], "c": [2]}}, {"a": {"b": 1}}, False),
        ({"a": [{"b": [1]}, 7]}, {"a": 7}, True),
        ({"a": [{"b": [1]}, 7]}, {"a": {"b": 1}}, True),
        # Strict about types; numbers by value.
        ({"a": [1]}, {"a": True}, False),
        ({"a": [True]}, {"a": 1}, False),
        ({"a": [1]}, {"a": "1"}, False),
        ({"a": ["1"]}, {"a": 1}, False),
        ({"a": [1]}, {"a": 1.0}, True),
        ({"a": [0]}, {"a": False}, False),
        ({"a": [None]}, {"a": None}, True),
        ({"a": [None]}, {}, False),
        ({"a": [1]}, {"a": [1]}, False),
        # Operators.
        ({"a": [{"prefix": "ab"}]}, {"a": "abc"}, True),
        ({"a": [{"suffix": "bc"}]}, {"a": "abc"}, True),
        ({"a": [{"suffix": "ab"}]}, {"a": "abc"}, False),
        ({"a": [{"prefix": "1"}]}, {"a": 12}, False),
        ({"a": [{"exists": True}]}, {"a": None}, True),
        ({"a": [{"exists": False}]}, {"a": None}, False),
        ({"a": {"b": [{"exists": False}]}}, {}, True),
        ({"a": {"b": [{"exists": False}]}}, {"a": 3}, True),
        ({"a": [{"gt": 3}]}, {"a": 3}, False),
        ({"a": [{"gte": 3}]}, {"a": 3.0}, True),
        ({"a": [{"lt": 3}]}, {"a": 2.5}, True),
        ({"a": [{"lte": 3}]}, {"a": "2"}, False),
        ({"a": [{"lte": 3}]}, {"a": True}, False),
        (
            {
                "a": [
                    {
                        "gt": 10,
                    }
                ]
            },
            {"a": 10**400},
            True,
        ),
        # Times.
        ({"at": [{"gt": "now()-1h"}]}, {"at": "2026-09-29T09:30:00Z"}, True),
        ({"at": [{"gt": "now()-1h"}]}, {"at": "2026-09-29T09:00:00Z"}, False),
        ({"at": [{"lte": "now()"}]}, {"at": "2026-09-29T12:15:00+02:00"}, True),
        ({"at": [{"lt": "now() + 30m"}]}, {"at": "2026-09-29T10:44:59.999999999Z"}, True),
        ({"at": [{"gt": "now()"}]}, {"at": "2026-09-30"}, False),
        ({"at": [{"gt": "now()"}]}, {"at": "2026-09-30T10:00:00"}, False),
        ({"at": [{"gt": "now()"}]}, {"at": 9e99}, False),
        ({"at": [{"lt": "now()"}]}, {"at": "0001-01-01T00:00:00+23:59"}, True),
        ({"at": [{"lt": "now()"}]}, {"at": "2026-02-30T00:00:00Z"}, False),
        # A field may be called like an operator.
        ({"prefix": {"gt": ["x"]}}, {"prefix": {"gt": "x"}}, True),
    ],
)
def test_matching(pattern: dict[str, Any], event: dict[str, Any], expected: bool) -> None:
    read = Pattern.from_json(pattern)
    assert read.matches(event, NOW) is expected
    assert (read.explain(event, NOW) == []) is expected


@pytest.mark.parametrize(
    ("pattern", "path", "words"),
    [
        ({}, (), "empty mapping"),
        ({"a": "x"}, ("a",), "list of alternatives"),
        ({"a": 1}, ("a",), "list of alternatives"),
        ({"a": None}, ("a",), "list of alternatives"),
        ({"a": []}, ("a",), "empty list"),
        ({"a": {}}, ("a",), "empty mapping"),
        ({"a": [{}]}, ("a", 0), "empty mapping"),
        ({"a": [[1]]}, ("a", 0), "not a list"),
        ({"a": [{"like": "x"}]}, ("a", 0, "like"), "unknown operator"),
        ({"a": [{"prefix": 1}]}, ("a", 0, "prefix"), "takes text"),
        ({"a": [{"prefix": ""}]}, ("a", 0, "prefix"), "takes text"),
        ({"a": [{"exists": 1}]}, ("a", 0, "exists"), "true or false"),
        ({"a": [{"gt": True}]}, ("a", 0, "gt"), "number or now()"),
        ({"a": [{"gt": "yesterday"}]}, ("a", 0, "gt"), "number or now()"),
        ({"a": [{"gt": "now()-1x"}]}, ("a", 0, "gt"), "not a duration"),
        ({"a": [{"gt": 1, "lt": 3}]}, ("a", 0), "one operator"),
        ({"a": {"prefix": "x"}}, ("a", "prefix"), "outside a list"),
        ({"a": [float("nan")]}, ("a", 0), "finite"),
    ],
)
def test_refusals_say_where(pattern: dict[str, Any], path: tuple[str | int, ...], words: str) -> None:
    with pytest.raises(PatternError, match=words.replace("(", r"\(").replace(")", r"\)")) as caught:
        Pattern.from_json(pattern)
    assert caught.value.path == path


def test_depth_is_bounded() -> None:
    deep: Any = [1]
    for _ in range(500):
        deep = {"a": deep}
    with pytest.raises(PatternError, match="levels"):
        Pattern.from_json(deep)


def test_equal_meanings_are_equal() -> None:
    one = Pattern.from_json({"b": [2, 1.0, 1], "a": [{"c": [{"gt": "now()-60m"}]}]})
    two = Pattern.from_json({"a": {"c": [{"gt": "now() - 1h"}]}, "b": [1, 2]})
    assert one == two
    assert hash(one) == hash(two)
    assert one.canonical == '{"a":{"c":[{"gt":"now()-1h"}]},"b":[1,2]}'
    assert one != Pattern.from_json({"b": [1, 2]})


def test_explanation_names_every_field_and_shows_little() -> None:
    pattern = Pattern.from_json({"kind": ["INSERT"], "new": {"total": [{"gt": 100}], "paid": [True]}})
    found = pattern.explain({"kind": "DELETE-everything", "new": {"total": 5}}, NOW)
    assert {each.path for each in found} == {"kind", "new.total", "new.paid"}
    by_path = {each.path: each for each in found}
    assert "everything" not in by_path["kind"].found
    assert by_path["new.total"].expected == "a number above 100"
    assert by_path["new.paid"].found == "nothing"
