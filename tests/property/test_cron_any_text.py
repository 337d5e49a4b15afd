"""Any text is a schedule or a CronError, and the canonical text means what the text meant."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.cronwalk import Fields

from relayctl.core.cron import Cron, CronError, Every

KNOWN = [
    row.get("expr") or row.get("expression")
    for name, key in (("cron_reject.json", "cases"), ("cron_vectors.json", "cases"), ("realworld_crons.json", "items"))
    for row in json.loads((Path(__file__).parents[1] / "cases" / "cron" / name).read_text())[key]
]
ALPHABET = "0123456789*,-/ \t\n@#?LWHR~=:'\"abcdefjmnosuwTZ_JANSUNMON．５\u3000ſ\u0660"


def _members(low: int, high: int, size: int, names: str = "") -> st.SearchStrategy[str]:
    value = (
        st.integers(low, high).map(str) | st.sampled_from(names.split()) if names else st.integers(low, high).map(str)
    )
    numbers = st.tuples(st.integers(low, high), st.integers(low, high)).map(sorted)
    step = st.integers(1, size)
    return st.one_of(
        st.just("*"),
        step.map("*/{}".format),
        value,
        numbers.map(lambda ends: f"{ends[0]}-{ends[1]}"),
        st.tuples(numbers, step).map(lambda drawn: f"{drawn[0][0]}-{drawn[0][1]}/{drawn[1]}"),
        st.tuples(st.integers(low, high), step).map(lambda drawn: f"{drawn[0]}/{drawn[1]}"),
    )


def _field(low: int, high: int, size: int, names: str = "") -> st.SearchStrategy[str]:
    return st.lists(_members(low, high, size, names), min_size=1, max_size=3).map(",".join)


expressions = st.tuples(
    _field(0, 59, 60),
    _field(0, 23, 24),
    _field(1, 31, 31),
    _field(1, 12, 12, "JAN jul Dec"),
    _field(0, 7, 7, "SUN mon Sat"),
).map(" ".join)


def _mutated(data: st.DataObject) -> str:
    text = data.draw(st.sampled_from(KNOWN))
    at = data.draw(st.integers(0, len(text)))
    return text[:at] + data.draw(st.text(ALPHABET, max_size=3)) + text[at + data.draw(st.integers(0, 3)) :]


def _verdict(text: str, zone: str = "UTC") -> Cron | CronError:
    try:
        return Cron.parse(text, zone)
    except CronError as error:
        assert error.code.startswith("RLY")
        assert error.message
        assert error.help
        assert len(error.message) + len(error.help) < 1200
        assert 0 <= error.span[0] <= error.span[1]
        if error.suggestion is not None:
            if "every" in error.suggestion:
                Every.parse(error.suggestion["every"])
            else:
                Cron.parse(error.suggestion["cron"], error.suggestion.get("timezone", "UTC"))
        return error


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60) | st.text(ALPHABET, max_size=40))
@example("")
@example("*" * 513)
@example("9" * 500 + " * * * *")
@example("* * * * *" + " *" * 200)
@example("@")
@example("@every " + "9" * 400)
@example("TZ=TZ=TZ= 0 0 0 3 * * *")
@example('"CRON_TZ=Europe/Rome @every 5m"')
def test_any_text(text: str) -> None:
    _verdict(text)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_expressions(data: st.DataObject) -> None:
    _verdict(_mutated(data))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40) | st.text("EuropeRm/UTCG+-012345._ ", max_size=30))
def test_any_zone_text(name: str) -> None:
    try:
        Cron.parse("@daily", name)
    except CronError as error:
        assert error.code in {"RLY301", "RLY302"}
        assert error.help


@settings(max_examples=80, deadline=None)
@given(expressions, st.integers(0, 2**31))
def test_canonical_text_means_the_same(expression: str, epoch: int) -> None:
    cron = Cron.parse(expression, "Europe/Rome")
    again = Cron.parse(cron.canonical, "Europe/Rome")
    assert again.canonical == cron.canonical
    assert again == cron
    assert (again.is_fixed, again.can_fire) == (cron.is_fixed, cron.can_fire)
    assert Cron.parse(expression.lower().replace(" ", "\t"), "Europe/Rome") == cron
    at: int | None = epoch
    for _ in range(5):
        assert at is not None
        following = cron.next_after_s(at)
        assert again.next_after_s(at) == following
        if following is None:
            break
        at = following


@settings(max_examples=80, deadline=None)
@given(expressions)
def test_fields_are_read_as_by_taking_the_text_apart(expression: str) -> None:
    cron, fields = Cron.parse(expression), Fields(expression)
    canonical = Fields(cron.canonical)
    assert cron.is_fixed == fields.is_fixed == canonical.is_fixed
    assert (canonical.minutes, canonical.hours, canonical.months) == (fields.minutes, fields.hours, fields.months)
    start = datetime(2023, 12, 31)
    for day in range(0, 800, 11):
        wall = start + timedelta(days=day, hours=min(fields.hours), minutes=min(fields.minutes))
        assert fields.match(wall) == canonical.match(wall) == cron.is_firing(wall.replace(tzinfo=UTC))


@settings(max_examples=50, deadline=None)
@given(expressions, expressions)
def test_equal_canonical_texts_are_equal_schedules(one: str, other: str) -> None:
    first, second = Cron.parse(one), Cron.parse(other)
    assert (first.canonical == second.canonical) == (first == second)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("@daily", "0 0 * * *"),
        ("@hourly", "*/60 * * * *"),
        ("*/1 * * * *", "* * * * *"),
        ("0 0 * * SUN", "0 0 * * 7"),
        ("5,1-3,2 0 * * *", "1-3,5 0 * * *"),
        ("0 0 1-31 * 1", "0 0 * * *"),
        ("0 0 * * 0-6", "0 0 * * *"),
        ("0,30 * * * *", "*/30 * * * *"),
        ("0 9-17/2 * * mon-fri", "00 9,11,13,15,17 * * 1-5"),
        ("0 0 1 */1 *", "0 0 1 1-12 *"),
    ],
)
def test_spellings_of_one_schedule(one: str, other: str) -> None:
    assert Cron.parse(one).canonical == Cron.parse(other).canonical
    assert Cron.parse(one) == Cron.parse(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0-59 2 * * *", "* 2 * * *"),
        ("0,20,40 2 * * *", "*/20 2 * * *"),
        ("0 0 */2 * 1", "0 0 * * 1"),
        ("*/60 5 * * *", "0 5 * * *"),
        ("0 */24 * * *", "0 0 * * *"),
    ],
)
def test_what_the_text_decides_stays_apart(one: str, other: str) -> None:
    assert Cron.parse(one).canonical != Cron.parse(other).canonical
    assert Cron.parse(one) != Cron.parse(other)
