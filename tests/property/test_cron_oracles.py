"""Against croniter and cronsim: equal, or different for a reason that is written down here with an example.

croniter is what other Python schedulers use; cronsim comes closest to the classic rule.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from cronsim import CronSim
from support.cronwalk import shifts_between, zone_info

from relayctl.core.cron import Cron

ZONES = ("UTC", "Europe/Rome", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/St_Johns")
Oracle = Callable[[str, str, datetime], datetime | None]


def by_croniter(expression: str, zone: str, start: datetime) -> datetime | None:
    local = start.astimezone(zone_info(zone))
    return croniter(expression, local, max_years_between_matches=9).get_next(datetime).astimezone(UTC)


def by_cronsim(expression: str, zone: str, start: datetime) -> datetime | None:
    return next(CronSim(expression, start.astimezone(zone_info(zone)))).astimezone(UTC)


def is_near_shift(zone: str, *instants: datetime | None) -> bool:
    return any(
        shifts_between(zone, int(one.timestamp()) - 90_000, int(one.timestamp()) + 90_000) for one in instants if one
    )


def day_fields(expression: str) -> tuple[str, str]:
    words = expression.split()
    return words[2], words[4]


def has_equal_range(expression: str) -> bool:
    return any(left == right for left, right in re.findall(r"(\w+)-(\w+)", expression))


def is_full_day_field_in_other_words(expression: str) -> bool:
    return any(word != "*" and re.search(r"\*(/1)?(,|$)", word) for word in day_fields(expression)) or any(
        len(Cron.parse(f"0 0 {day} * {weekday}").canonical) == len("0 0 * * *")
        for day, weekday in ((day_fields(expression)[0], "*"), ("*", day_fields(expression)[1]))
        if (day, weekday) != ("*", "*")
    )


def is_joined_by_leading_star(expression: str) -> bool:
    day, weekday = day_fields(expression)
    starry = any(re.search(r"(^|,)\*(/1)?(,|$)", word) for word in (day, weekday))
    return starry != (day.startswith("*") or weekday.startswith("*"))


def has_step_from_seven(expression: str) -> bool:
    return bool(re.search(r"(^|,)7/", day_fields(expression)[1]))


@dataclass(frozen=True)
class Difference:
    """A known class of cases: the oracle, why, which cases it covers, and one of them with the oracle's answer."""

    oracle: Oracle
    why: str
    covers: Callable[[str, str, datetime, datetime | None, datetime | None], bool]
    example: tuple[str, str, str, str]


DIFFERENCES = (
    Difference(
        by_croniter,
        "an equal range is the whole field",
        lambda expression, *_: has_equal_range(expression),
        ("5-5 * * * *", "UTC", "2026-05-01T06:18Z", "2026-05-01T06:19Z"),
    ),
    Difference(
        by_croniter,
        "a day field that is full in other words than * joins by OR, or counts as a star",
        lambda expression, *_: is_full_day_field_in_other_words(expression),
        ("0 0 10 * */1", "UTC", "2026-03-01T00:00Z", "2026-03-02T00:00Z"),
    ),
    Difference(
        by_croniter,
        "a step from 7 begins at 0",
        lambda expression, *_: has_step_from_seven(expression),
        ("0 0 * * 7/2", "UTC", "2026-03-01T00:00Z", "2026-03-03T00:00Z"),
    ),
    Difference(
        by_croniter,
        "fixed jobs fire in both passes of a fold, star jobs at the end of a gap",
        lambda _, zone, __, ours, theirs: is_near_shift(zone, ours, theirs),
        ("30 2 * * *", "Europe/Rome", "2024-10-27T00:30Z", "2024-10-27T01:30Z"),
    ),
    Difference(
        by_cronsim,
        "day fields are joined by AND when the text of one begins with a star",
        lambda expression, *_: is_joined_by_leading_star(expression),
        ("0 0 */2 * 1", "UTC", "2026-03-02T00:00Z", "2026-03-09T00:00Z"),
    ),
    Difference(
        by_cronsim,
        "an equal range with a step runs to the field's end",
        lambda expression, *_: bool(re.search(r"\b(\w+)-\1/", expression)),
        ("5-5/20 * * * *", "UTC", "2026-05-01T06:18Z", "2026-05-01T06:25Z"),
    ),
    Difference(
        by_cronsim,
        "a step from a weekday runs on to 7",
        lambda expression, *_: bool(re.search(r"(^|,)[0-7]/", day_fields(expression)[1])),
        ("0 0 * * 5/2", "UTC", "2026-03-06T00:00Z", "2026-03-08T00:00Z"),
    ),
    Difference(
        by_cronsim,
        "asked from the second pass, or across a shift of less than an hour, it loses its place",
        lambda _, zone, start, ours, theirs: is_near_shift(zone, start, ours, theirs),
        ("50 2 * * *", "Europe/Rome", "2024-10-27T01:45Z", "2024-10-27T00:50Z"),
    ),
)


@pytest.mark.parametrize("known", DIFFERENCES, ids=lambda known: known.why)
def test_a_known_difference_is_still_one(known: Difference) -> None:
    expression, zone, start_text, theirs_text = known.example
    start, theirs = datetime.fromisoformat(start_text), datetime.fromisoformat(theirs_text)
    ours = Cron.parse(expression, zone).next_after(start)
    assert known.oracle(expression, zone, start) == theirs != ours
    assert known.covers(expression, zone, start, ours, theirs)


def _member(rng: random.Random, low: int, high: int, size: int) -> str:
    first, last = sorted((rng.randint(low, high), rng.randint(low, high)))
    step = rng.randint(1, size)
    return rng.choice(("*", f"*/{step}", str(first), f"{first}-{last}", f"{first}-{last}/{step}", f"{first}/{step}"))


def _expression(rng: random.Random) -> str:
    words = []
    for chance, (low, high, size) in zip(
        (0.1, 0.2, 0.5, 0.7, 0.5), ((0, 59, 60), (0, 23, 24), (1, 31, 31), (1, 12, 12), (0, 7, 7)), strict=True
    ):
        members = [_member(rng, low, high, size) for _ in range(rng.choice((1, 1, 1, 2)))]
        words.append("*" if rng.random() < chance else ",".join(members))
    return " ".join(words)


@pytest.mark.parametrize("oracle", [by_croniter, by_cronsim])
@pytest.mark.parametrize("seed", range(4))
def test_every_difference_is_a_known_one(oracle: Oracle, seed: int) -> None:
    rng = random.Random(seed)
    known = [one.covers for one in DIFFERENCES if one.oracle is oracle]
    agreed = 0
    for _ in range(120):
        expression, zone = _expression(rng), rng.choice(ZONES)
        start = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=rng.randrange(30 * 365 * 86_400))
        cron = Cron.parse(expression, zone)
        ours = cron.next_after(start)
        if ours is None or ours - start > timedelta(days=400):
            continue
        theirs = oracle(expression, zone, start)
        agreed += ours == theirs
        assert ours == theirs or any(covers(expression, zone, start, ours, theirs) for covers in known), (
            f"{expression!r} in {zone} after {start.isoformat()}: ours {ours.isoformat()}, theirs {theirs}"
        )
    assert agreed > 80


@pytest.mark.parametrize("zone", ["Europe/Rome", "America/New_York", "Africa/Cairo"])
def test_cronsim_agrees_around_shifts_of_an_hour(zone: str) -> None:
    rng = random.Random(zone)
    for shift in shifts_between(zone, 1_680_000_000, 1_740_000_000, 86_400):
        start = datetime.fromtimestamp(shift.at - 40_000, ZoneInfo("UTC"))
        for _ in range(25):
            minute, hour = (
                rng.choice(("*/20", "0", "30", "0,30", "59")),
                rng.choice(("*", "*/2", "0", "1", "2", "23", "0-3")),
            )
            expression = f"{minute} {hour} * * *"
            simulated = CronSim(expression, start.astimezone(zone_info(zone)))
            theirs = [next(simulated).astimezone(UTC) for _ in range(8)]
            assert list(Cron.parse(expression, zone).between(start, theirs[-1])) == theirs, (expression, zone, start)
