"""Laws of patterns: reading gives a pattern or our error, the canonical text reads back, explanation agrees with matching."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from relayctl.core.pattern import Pattern, PatternError

NOW = datetime(2026, 9, 29, 10, 15, tzinfo=UTC)
_names = st.sampled_from(["a", "b", "c", "prefix", "gt"])
_scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.sampled_from(["", "a", "ab", "1"])
_operators = st.one_of(
    st.builds(lambda text: {"prefix": text}, st.sampled_from(["a", "ab"])),
    st.builds(lambda flag: {"exists": flag}, st.booleans()),
    st.builds(lambda name, limit: {name: limit}, st.sampled_from(["gt", "gte", "lt", "lte"]), st.integers(-3, 3)),
    st.builds(lambda name: {name: "now()-90m"}, st.sampled_from(["gt", "lte"])),
)


def _nested(depth: int) -> Any:
    """Patterns at most `depth` maps deep: without a bound, drawing one takes longer than judging it."""
    lone: Any = _scalars | _operators
    if depth == 0:
        return st.dictionaries(_names, st.lists(lone, min_size=1, max_size=3), min_size=1, max_size=3)
    inner = _nested(depth - 1)
    conditions = st.lists(lone | inner, min_size=1, max_size=3) | inner
    return st.dictionaries(_names, conditions, min_size=1, max_size=3)


_patterns: Any = _nested(2)
_events: Any = st.dictionaries(_names, st.recursive(_scalars, lambda inner: st.dictionaries(_names, inner, max_size=3)))
_anything = st.recursive(
    _scalars | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | _names, inner, max_size=3),
    max_leaves=12,
)


@settings(deadline=None)
@given(_anything)
def test_anything_is_a_pattern_or_our_error(written: Any) -> None:
    try:
        Pattern.from_json(written)
    except PatternError as error:
        assert error.message


@settings(deadline=None)
@given(_patterns, _events)
def test_canonical_text_means_the_same(written: dict[str, Any], event: dict[str, Any]) -> None:
    try:
        pattern = Pattern.from_json(written)
    except PatternError:
        return
    again = Pattern.from_json(json.loads(pattern.canonical))
    assert again == pattern
    assert again.matches(event, NOW) == pattern.matches(event, NOW)


@settings(deadline=None)
@given(_patterns, _events)
def test_explanation_agrees_with_matching(written: dict[str, Any], event: dict[str, Any]) -> None:
    try:
        pattern = Pattern.from_json(written)
    except PatternError:
        return
    assert pattern.matches(event, NOW) == (pattern.explain(event, NOW) == [])
