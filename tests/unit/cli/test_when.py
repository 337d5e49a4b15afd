"""Instants as users write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayctl.cli.when import parse_instant
from relayctl.errors import UsageError

NOW = datetime(2026, 9, 29, 10, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("now+90m", NOW + timedelta(minutes=90)),
        ("now-1d", NOW - timedelta(days=1)),
        ("2026-09-29", datetime(2026, 9, 29, tzinfo=UTC)),
        ("2026-09-29T03:00", datetime(2026, 9, 29, 3, tzinfo=UTC)),
        ("2026-09-29T03:00:30Z", datetime(2026, 9, 29, 3, 0, 30, tzinfo=UTC)),
        ("2026-09-29t03:00:00z", datetime(2026, 9, 29, 3, tzinfo=UTC)),
        ("2026-09-29T05:00:00+02:00", datetime(2026, 9, 29, 3, tzinfo=UTC)),
        ("2026-09-29T03:00:00.999Z", datetime(2026, 9, 29, 3, tzinfo=UTC)),
        ("now+1500ms", NOW + timedelta(seconds=1)),
    ],
)
def test_the_forms(text: str, expected: datetime) -> None:
    assert parse_instant(text, NOW) == expected


@pytest.mark.parametrize(
    "text",
    ["", "tomorrow", "now+", "now+2", "now*3m", "2026-13-01", "20260929", "0001-01-01T00:00:00+23:00", "now-36500d"],
)
def test_anything_else_says_what_to_write(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_instant(text, NOW if text != "now-36500d" else datetime(1, 1, 2, tzinfo=UTC))
    assert caught.value.help


@given(st.text(max_size=30))
def test_arbitrary_text_is_an_instant_or_our_error(text: str) -> None:
    try:
        assert parse_instant(text, NOW).utcoffset() == timedelta(0)
    except UsageError:
        pass
