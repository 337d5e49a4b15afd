"""Specs and their hashes, what a stored spec means here, and what generations owe."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from relayctl.core.cron import Cron, Every
from relayctl.core.definition import Firing, Generation, Spec
from relayctl.core.model import CatchUp, Contract, Overlap, Schedule
from relayctl.core.names import ScheduleName

T0 = 1_800_000_000
T0_MS = T0 * 1000


def schedule(trigger: Cron | Every, **changes: Any) -> Schedule:
    return replace(
        Schedule(name=ScheduleName("nightly"), trigger=trigger, contract=Contract(handler="jobs.run")), **changes
    )


def cron(expression: str = "0 3 * * *", zone: str = "Europe/Rome", dst: dict[str, str] | None = None) -> Cron:
    return Cron.parse(expression, zone, dst)


MINUTELY = Spec.of(schedule(Every(seconds=60)))
HOURLY = Spec.of(schedule(Every(seconds=3600)))
DISABLED = Spec.of(schedule(Every(seconds=60), enabled=False))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (cron("@daily", "UTC"), cron("0 0 * * *", "UTC")),
        (cron("0 3 * * MON"), cron("00 03 * * 1")),
        (cron("0 3 * * *"), cron("0 3 * * *", dst={"gap": "run", "fold": "first"})),
        (Every(seconds=900), Every.parse("15m")),
    ],
)
def test_equal_firings_by_equal_rules_have_equal_hashes(one: Cron | Every, other: Cron | Every) -> None:
    assert Spec.of(schedule(one)) == Spec.of(schedule(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (cron("0 3 * * *"), cron("0 4 * * *")),
        (cron(), cron(zone="Europe/Berlin")),
        (cron(), cron(dst={"gap": "skip"})),
        (cron(), cron(dst={"fold": "both"})),
        (Every(seconds=60), Every(seconds=61)),
        (Every(seconds=60), cron("* * * * *", "UTC")),
    ],
)
def test_other_firings_have_other_hashes(one: Cron | Every, other: Cron | Every) -> None:
    assert Spec.of(schedule(one)).hash != Spec.of(schedule(other)).hash


@pytest.mark.parametrize(
    "changes",
    [
        {"contract": Contract(handler="x.y", timeout=timedelta(hours=1), retries=0)},
        {"overlap": Overlap.SKIP},
        {"catch_up": CatchUp.ALL},
        {"jitter": timedelta(seconds=5)},
        {"input": '{"a":1}'},
        {"description": "new words"},
    ],
)
def test_what_does_not_decide_when_is_no_part_of_it(changes: dict[str, Any]) -> None:
    assert Spec.of(schedule(cron(), **changes)) == Spec.of(schedule(cron()))


def test_switching_off_is_another_definition() -> None:
    assert DISABLED.hash != MINUTELY.hash


def test_a_hash_is_the_same_in_every_process() -> None:
    assert MINUTELY.text == '{"enabled":true,"evaluator":"1","every":60,"v":1}'
    assert MINUTELY.hash == "baea00e5fa6bd178"


@pytest.mark.parametrize("trigger", [cron(), cron(dst={"gap": "skip", "fold": "both"}), Every(seconds=7)])
def test_a_spec_is_read_back_as_its_trigger(trigger: Cron | Every) -> None:
    firing = Firing.from_spec(Spec.of(schedule(trigger)).text)
    assert firing.is_comparable
    assert firing.trigger is not None
    at = T0
    for _ in range(50):
        expected = trigger.next_after_s(at)
        assert firing.trigger.next_after_s(at) == expected
        assert expected is not None
        at = expected


def test_nothing_fires_by_a_tombstone_or_while_switched_off() -> None:
    assert Firing.from_spec("") == Firing(trigger=None, is_comparable=True)
    assert Firing.from_spec(DISABLED.text) == Firing(trigger=None, is_comparable=True)


@pytest.mark.parametrize(
    ("changes", "has_trigger"),
    [
        ({"evaluator": "2"}, True),
        ({"zone": "of another release"}, True),
        ({"timezone": "Mars/Olympus"}, False),
        ({"cron": "0 0 L * *"}, False),
        ({"v": 2}, False),
    ],
)
def test_what_a_peer_understands_otherwise_is_not_comparable(changes: dict[str, Any], has_trigger: bool) -> None:
    text = json.dumps(json.loads(Spec.of(schedule(cron())).text) | changes)
    firing = Firing.from_spec(text)
    assert not firing.is_comparable
    assert (firing.trigger is not None) is has_trigger


def generation(number: int, spec: Spec, from_ms: int, to_ms: int | None = None) -> Generation:
    return Generation(gen=number, hash=spec.hash, spec=spec.text, from_ms=from_ms, to_ms=to_ms)


@pytest.mark.parametrize(
    ("from_ms", "to_ms", "expected"),
    [
        (T0_MS, None, [0, 60, 120]),
        (T0_MS + 1, None, [60, 120]),
        (T0_MS, T0_MS + 60_000, [0]),
        (T0_MS, T0_MS + 60_001, [0, 60]),
        (T0_MS - 999, T0_MS + 1, [0]),
        (T0_MS, T0_MS, []),
        (T0_MS + 200_000, None, []),
    ],
)
def test_an_instant_is_owed_by_the_generation_in_force_at_its_millisecond(
    from_ms: int, to_ms: int | None, expected: list[int]
) -> None:
    item = generation(1, MINUTELY, from_ms, to_ms)
    firing = Firing.from_spec(item.spec)
    assert list(item.owes(T0 - 300, T0 + 120, firing)) == [T0 + at for at in expected]


def test_what_is_owed_lies_after_the_cursor_up_to_now() -> None:
    item = generation(1, MINUTELY, T0_MS - 10_000_000)
    firing = Firing.from_spec(item.spec)
    assert list(item.owes(T0, T0 + 60, firing)) == [T0 + 60]
    assert list(item.owes(T0 - 1, T0 + 59, firing)) == [T0]
    assert list(item.owes(T0 + 60, T0 + 60, firing)) == []
    assert list(item.owes(T0 + 90, T0, firing)) == []
    assert list(item.owes(T0, T0 + 60, Firing.from_spec(""))) == []


@pytest.mark.parametrize(("after", "until"), [(-300, 120), (0, 60), (60, 60), (59, 60), (-1, 0), (90, 0), (1, 59)])
@pytest.mark.parametrize("to_ms", [None, T0_MS, T0_MS + 60_000, T0_MS + 60_001])
def test_the_latest_owed_is_the_last_of_all_owed(after: int, until: int, to_ms: int | None) -> None:
    item = generation(1, MINUTELY, T0_MS - 60_000, to_ms)
    firing = Firing.from_spec(item.spec)
    owes = list(item.owes(T0 + after, T0 + until, firing))
    assert item.latest_owed(T0 + after, T0 + until, firing) == (owes[-1] if owes else None)


def test_each_generation_owes_its_own_part_of_a_gap() -> None:
    generations = [
        generation(3, MINUTELY, T0_MS + 3_600_001),
        generation(1, MINUTELY, T0_MS, T0_MS + 120_000),
        generation(2, DISABLED, T0_MS + 120_000, T0_MS + 3_600_001),
    ]
    found = [
        (at - T0, item.gen)
        for item in generations
        for at in item.owes(T0 - 600, T0 + 3720, Firing.from_spec(item.spec))
    ]
    assert sorted(found) == [(0, 1), (60, 1), (3660, 3), (3720, 3)]


def test_a_new_definition_owes_nothing_of_the_past() -> None:
    item = generation(1, HOURLY, T0_MS + 1)
    assert list(item.owes(T0 - 86_400, T0 + 3599, Firing.from_spec(item.spec))) == []
    unlimited = item.owes(T0 - 86_400, None, Firing.from_spec(item.spec))
    assert [next(unlimited), next(unlimited)] == [T0 + 3600, T0 + 7200]
