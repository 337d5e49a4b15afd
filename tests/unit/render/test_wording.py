"""The sentence about a trigger: right where cron-descriptor is not, and never a false rate."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayctl.core.cron import Cron, Every
from relayctl.render.wording import describe


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("30 2 * * *", "At 02:30, every day"),
        ("@daily", "At 00:00, every day"),
        ("@hourly", "Every hour at :00"),
        ("* * * * *", "Every minute"),
        ("*/15 * * * *", "Every 15 minutes"),
        ("5-59/15 * * * *", "Every 15 minutes at :05, :20, :35 and :50"),
        ("59/15 * * * *", "Every hour at :59"),
        ("*/60 * * * *", "Every hour at :00"),
        ("*/7 * * * *", "At :00, :07, :14, :21, :28, :35, :42, :49 and :56 of every hour"),
        ("*,5 * * * *", "Every minute"),
        ("0 */5 * * *", "At 00:00, 05:00, 10:00, 15:00 and 20:00, every day"),
        ("0 9-17 * * *", "Every hour at :00 from 09:00 through 17:00, every day"),
        ("*/15 9-17 * * 1-5", "Every 15 minutes from 09:00 through 17:45, on Monday through Friday"),
        ("* 8 * * *", "Every minute from 08:00 through 08:59, every day"),
        ("0 9 1 * 1", "At 09:00, on day 1 of the month and also on every Monday"),
        ("0 0 1-31 * 1", "At 00:00, every day"),
        ("0 0 * * 5-7", "At 00:00, on Friday through Sunday"),
        ("1 */12 * * *", "At 00:01 and 12:01, every day"),
        ("*/60 3 * * 1", "At 03:00, on Monday"),
        ("0 0 5-5 * *", "At 00:00, on day 5 of the month"),
        ("0 0 30 2 *", "Never: no date matches"),
        ("0 12 */10 * *", "At 12:00, on days 1, 11, 21 and 31 of the month"),
        ("0 12 10-12 * *", "At 12:00, on days 10 through 12 of the month"),
        ("0 12 * 3-5 *", "At 12:00, from March through May"),
    ],
)
def test_a_sentence_says_what_fires(expression: str, sentence: str) -> None:
    assert describe(Cron.parse(expression)) == sentence


def test_an_interval_names_its_origin() -> None:
    assert describe(Every.parse("15m")) == "Every 15 m, counted from 1970-01-01 00:00 UTC"


def test_the_locale_of_the_process_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "it_IT.UTF-8")
    monkeypatch.setenv("LANGUAGE", "it")
    assert describe(Cron.parse("0 12 * * 0")) == "At 12:00, only on Sunday"


_member = st.one_of(
    st.just("*"),
    st.integers(0, 23).map(str),
    st.integers(1, 23).map(lambda step: f"*/{step}"),
    st.tuples(st.integers(0, 11), st.integers(12, 23), st.integers(1, 12)).map(lambda t: f"{t[0]}-{t[1]}/{t[2]}"),
    st.tuples(st.integers(0, 23), st.integers(2, 23)).map(lambda t: f"{t[0]}/{t[1]}"),
)
_field = st.lists(_member, min_size=1, max_size=2).map(",".join)
_day = st.sampled_from(["*", "1", "*/2", "1-7", "29", "1,15", "28-31"])
_weekday = st.sampled_from(["*", "1", "1-5", "6,7", "*/2", "0-6"])


@pytest.mark.slow
@given(minute=_field, hour=_field, day=_day, weekday=_weekday)
@settings(max_examples=120, deadline=None)
def test_no_rate_is_false(minute: str, hour: str, day: str, weekday: str) -> None:
    cron = Cron.parse(f"{minute} {hour} {day} * {weekday}")
    sentence = describe(cron)
    start = datetime(2026, 8, 31, 23, 59, tzinfo=UTC)
    firings = list(cron.between(start, start + timedelta(days=8)))
    same_day = [late - early for early, late in pairwise(firings) if late.date() == early.date()]
    rate = re.search(r"[Ee]very (?:(\d+) )?(minute|hour)", sentence)
    if rate:
        unit = timedelta(minutes=1) if rate[2] == "minute" else timedelta(hours=1)
        is_within_hours = " of hour" in sentence or " of every hour" in sentence or " of each hour" in sentence
        assert is_within_hours or set(same_day) <= {unit * int(rate[1] or 1)}
    fired = {f"{hour:02}:{minute:02}" for hour, minute in {(at.hour, at.minute) for at in firings}}
    for time in re.findall(r"\b(\d\d:\d\d)\b", sentence):
        assert not firings or time in fired or "Every minute" in sentence
    if "every day" in sentence and firings:
        assert len({at.date() for at in firings}) == 8
    if sentence.startswith("At ") and " of " not in sentence.split(", on")[0]:
        listed = re.findall(r"\d\d:\d\d", sentence)
        assert fired <= set(listed)
