"""Crowded minutes of a plan: what counts, what does not, and which of them the plan is to blame for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from support.described import NOW, described, running, sample

from relayctl.core.diff import make_plan
from relayctl.core.herd import HERD, Herd

THREE = datetime(2026, 9, 30, 3, tzinfo=UTC)


def rows(count: int, when: str = "cron: '0 3 * * *'") -> list[str]:
    return [f"name: s{number}, {when}" for number in range(count)]


def herds(before: list[str], after: list[str]) -> tuple[Herd, ...]:
    found = running(described({"billing": sample(*before)}))
    return make_plan(described({"billing": sample(*after)}), found, now=NOW).herds


def test_a_minute_that_the_plan_crowds() -> None:
    assert herds(rows(18), rows(HERD)) == (Herd(at=THREE, before=18, after=HERD),)
    assert herds(rows(18), rows(HERD - 1)) == ()


def test_a_crowd_that_was_there_is_told_only_where_it_grows() -> None:
    other = "name: other, every: 2d"
    assert herds(rows(30), [*rows(30), other]) == ()
    assert herds(rows(30), rows(25)) == ()
    assert herds(rows(30), [*rows(30), "name: other, cron: '0 5 * * *', timezone: Europe/Rome"]) == (
        Herd(at=THREE, before=30, after=31),
    )


def test_paused_ones_crowd_nothing() -> None:
    fleet = running(described({"billing": sample(*rows(18))}))
    paused = {name: replace(entry, paused_at=NOW) for name, entry in fleet.registry.items()}
    plan = make_plan(described({"billing": sample(*rows(HERD))}), replace(fleet, registry=paused), now=NOW)
    assert plan.herds == ()


@pytest.mark.parametrize(
    "when", ["cron: '*/5 * * * *'", "cron: '0 3 * * *', jitter: 5m", "cron: '0 3 * * *', enabled: false", "every: 5m"]
)
def test_what_is_spread_frequent_or_disabled_crowds_nothing(when: str) -> None:
    assert herds([], rows(40, when)) == ()


def test_hourly_ones_crowd_every_hour_and_the_fullest_comes_first() -> None:
    found = herds([], [*rows(HERD, "cron: '0 * * * *'"), "name: more, cron: '0 3 * * *'"])
    assert len(found) == 24
    assert found[0] == Herd(at=THREE, before=0, after=HERD + 1)
