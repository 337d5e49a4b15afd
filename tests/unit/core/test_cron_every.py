"""Fixed intervals from the epoch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from relayctl.core.cron import Every
from relayctl.core.duration import DurationError


def test_spellings_of_one_interval_are_equal() -> None:
    assert Every.parse("15m") == Every.parse("900s") == Every.parse("900000ms") == Every(seconds=900)
    assert Every.parse("15m").canonical == "900s"


@pytest.mark.parametrize("text", ["1s", "7s", "15m", "6h", "3d"])
def test_the_four_questions_agree(text: str) -> None:
    every = Every.parse(text)
    start = datetime(2026, 9, 29, 3, 0, 1, 5, tzinfo=UTC)
    following = every.next_after(start)
    assert following > start
    assert every.is_firing(following)
    assert every.latest_at_or_before(following) == following
    latest = every.latest_at_or_before(start)
    assert latest <= start
    assert every.next_after(latest) == following
    assert following - latest == timedelta(seconds=every.seconds)
    assert list(every.between(latest, following)) == [following]
    assert not every.is_firing(following + timedelta(microseconds=1))
    assert following.timestamp() % every.seconds == 0


def test_before_the_epoch_and_at_the_ends() -> None:
    every = Every.parse("1h")
    assert every.latest_at_or_before(datetime(1969, 12, 31, 23, 30, tzinfo=UTC)) == datetime(
        1969, 12, 31, 23, tzinfo=UTC
    )
    assert every.next_after(datetime(9999, 12, 31, tzinfo=UTC)) is None
    assert every.latest_at_or_before(datetime(1, 1, 1, tzinfo=UTC)) is None


@pytest.mark.parametrize("text", ["0s", "500ms", "1500ms", "15", "", "-5m", "15 minutes", "1.5h", "soon"])
def test_what_is_no_interval_is_refused_with_a_way_out(text: str) -> None:
    with pytest.raises(DurationError) as caught:
        Every.parse(text)
    assert caught.value.help
