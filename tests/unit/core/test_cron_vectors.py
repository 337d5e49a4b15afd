"""The recorded cases: every vector by every question, every refusal, and schedules as people really write them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from relayctl.core.cron import Cron, CronError, Every
from relayctl.core.crongrammar import FIELDS

CASES = Path(__file__).parents[2] / "cases" / "cron"
VECTORS = [
    row for row in json.loads((CASES / "cron_vectors.json").read_text())["cases"] if row["policy"] in ("any", "vixie")
]
REJECTS = json.loads((CASES / "cron_reject.json").read_text())["cases"]
REAL = json.loads((CASES / "realworld_crons.json").read_text())["items"]
CODES = {
    "@DAILY": "RLY203",
    "@every_minute": "RLY203",
    "@reboot": "RLY203",
    "TZ=": "RLY204",
    "CRON_TZ=UTC @daily": "RLY204",
    "CRON_TZ=Europe/Rome 0 3 * * *": "RLY204",
    "0 0 3 * * *": "RLY202",
    "0 3 * * * /usr/bin/true": "RLY202",
    "0 3 * * * 2030": "RLY202",
    "0 0 * * FRI-MON": "RLY213",
    "0 22-2 * * *": "RLY213",
    **dict.fromkeys(
        ("? * * * *", "0 0 ? * 1", "0 0 15W * *", "0 0 * * 5#3", "R R * * *", "H H * * *", "0 0 * * 5L", "0 0 L * *"),
        "RLY214",
    ),
}


def instants(texts: list[str]) -> list[datetime]:
    return [datetime.fromisoformat(text) for text in texts]


def trigger_of(suggestion: dict[str, str]) -> Cron | Every:
    if "every" in suggestion:
        return Every.parse(suggestion["every"])
    return Cron.parse(suggestion["cron"], suggestion.get("timezone", "UTC"))


@pytest.mark.parametrize("row", VECTORS, ids=[row["id"] for row in VECTORS])
def test_vector(row: dict) -> None:
    cron = Cron.parse(row["expr"], row["tz"])
    start, expected = datetime.fromisoformat(row["start"]), instants(row["expect"])
    if not expected:
        assert not cron.can_fire
        assert cron.next_after(start) is None
        assert cron.latest_at_or_before(start) is None
        assert list(cron.between(start, start + timedelta(days=9000))) == []
        return
    assert list(cron.between(start, expected[-1])) == expected
    assert cron.next_after(start) == expected[0]
    for one, following in pairwise(expected):
        assert cron.next_after(one) == following
        assert cron.latest_at_or_before(following - timedelta(seconds=1)) == one
        steps = min(1500, int((following - one).total_seconds()) // 60)
        assert not any(cron.is_firing(one + timedelta(minutes=step)) for step in range(1, steps))
    assert all(cron.is_firing(one) and cron.latest_at_or_before(one) == one for one in expected)


@pytest.mark.parametrize("row", REJECTS, ids=[ascii(row["expr"]) for row in REJECTS])
def test_refusal_says_where_and_what_to_do(row: dict) -> None:
    with pytest.raises(CronError) as caught:
        Cron.parse(row["expr"])
    error = caught.value
    assert error.code == CODES.get(row["expr"], "RLY201")
    assert error.help
    if error.code != "RLY203":
        assert any(kind.name in error.message for kind in FIELDS)
    assert 0 <= error.span[0] <= error.span[1] <= len(row["expr"])
    if error.suggestion:
        trigger_of(error.suggestion)


@pytest.mark.parametrize("row", REAL, ids=[row["id"] for row in REAL])
def test_as_people_write_it(row: dict) -> None:
    zone = row["timezone"] or "UTC"
    start = datetime(2026, 10, 1, tzinfo=UTC)
    recorded = instants(row.get("next_5_utc_after_2026-10-01T00:00Z", []))
    if row["verdict"] != "invalid":
        cron = Cron.parse(row["expression"], zone)
        assert list(cron.between(start, recorded[-1])) == recorded
        return
    with pytest.raises(CronError) as caught:
        Cron.parse(row["expression"], zone)
    if "portable_form" not in row:
        assert caught.value.suggestion is None
        assert caught.value.help
        return
    assert caught.value.suggestion is not None
    meant = trigger_of({"timezone": zone, **caught.value.suggestion})
    assert list(meant.between(start, recorded[-1])) == recorded
