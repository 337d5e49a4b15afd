"""Templates that mean the same, written in different ways, plan empty; and one that means something else never does."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from support.described import NOW, running
from support.templates import checked

from relayctl.core.description import Description, describe_app
from relayctl.core.diff import make_plan

CRONS = (
    ("@daily", "0 0 * * *", "0 0 * * *   ", "00 0 */1 * *"),
    ("0 9 * * mon-fri", "0 9 * * 1-5", "0 9 * * 1,2,3,4,5", "0   9 * * MON-FRI"),
    ("15 6 1 jan,jul *", "15 6 1 1,7 *", "15 6 1 JAN,7 *"),
    ("@hourly", "0 * * * *"),
    ("0 4 * * sun", "0 4 * * 7", "0 4 * * 0"),
)
TIMEOUTS = (("90s", "1m30s", "90000ms"), ("2m", "120s"), ("1h", "60m"))
EVERY = (("90m", "1h30m", "5400s"), ("1d", "24h"), ("15m", "900s"))
DEFAULTS = {"retries": "4", "overlap": "allow", "enabled": "true", "timezone": "UTC"}
ZONES = ("UTC", "Europe/Rome", "America/New_York")
INPUTS = ({}, {"b": 1, "a": [1, "x"]}, {"text": "it's: #1"})


@dataclass(frozen=True)
class Meaning:
    """What a template says, by the number of the choice made for each thing."""

    schedules: tuple[tuple[int, int, int, int], ...]
    env: tuple[str, ...]
    concurrency: int


meanings = st.builds(
    Meaning,
    schedules=st.lists(
        st.tuples(st.integers(0, len(CRONS) + len(EVERY) - 1), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2)),
        min_size=1,
        max_size=4,
    ).map(tuple),
    env=st.lists(st.sampled_from(["one", "two: three", "'", "#4"]), max_size=2).map(tuple),
    concurrency=st.integers(1, 2),
)


def _spelled(meaning: Meaning, chance: random.Random) -> str:
    """One of the many ways to write it."""
    parts = [
        f"{_quoted('runtime', chance)}: python\n",
        f"events: [{{handler: jobs.run, pattern: {{kind: {chance.choice(['[a, b]', '[b, a]'])}}}}}]\n",
        _schedules(meaning, chance),
    ]
    if meaning.env:
        names = [(f"NAME_{number}", value) for number, value in enumerate(meaning.env)]
        chance.shuffle(names)
        parts.append("env: " + json.dumps(dict(names)) + "\n")
    if meaning.concurrency != 2 or chance.random() < 0.5:
        parts.append(f"concurrency: {meaning.concurrency}\n")
    chance.shuffle(parts)
    return "".join(chance.choice(["", "# a remark\n", "\n"]) + part for part in parts)


def _schedules(meaning: Meaning, chance: random.Random) -> str:
    rows = [_schedule(number, *choices, chance) for number, choices in enumerate(meaning.schedules)]
    chance.shuffle(rows)
    if chance.random() < 0.5:
        return "schedules:\n" + "".join(
            "  - " + "\n    ".join(f"{_quoted(key, chance)}: {value}" for key, value in row) + "\n" for row in rows
        )
    return (
        "schedules: ["
        + ", ".join("{" + ", ".join(f"{key}: {value}" for key, value in row) + "}" for row in rows)
        + "]\n"
    )


def _schedule(
    number: int, when: int, timeout: int, zone: int, payload: int, chance: random.Random
) -> list[tuple[str, str]]:
    keys = {"name": _quoted(f"job-{number}", chance), "handler": _quoted("jobs.run", chance)}
    written = dict(DEFAULTS)
    if when < len(CRONS):
        keys["cron"] = json.dumps(chance.choice(CRONS[when]))
        written["timezone"] = ZONES[zone]
    else:
        keys["every"] = chance.choice(EVERY[when - len(CRONS)])
        del written["timezone"]
    keys["timeout"] = chance.choice(TIMEOUTS[timeout])
    if payload:
        keys["input"] = _mapping(INPUTS[payload], chance)
    # What is usual may be left out.
    keys |= {key: value for key, value in written.items() if value != DEFAULTS[key] or chance.random() < 0.5}
    rows = list(keys.items())
    chance.shuffle(rows)
    return rows


def _mapping(value: dict[str, object], chance: random.Random) -> str:
    items = list(value.items())
    chance.shuffle(items)
    return json.dumps(dict(items))


def _quoted(text: str, chance: random.Random) -> str:
    return chance.choice([text, f'"{text}"', f"'{text}'"])


def _described(text: str) -> dict[str, Description]:
    app, problems = checked(text)
    assert app is not None, (problems, text)
    return {"sample": describe_app(app, str(len(text)))}


@settings(max_examples=30, deadline=None)
@given(meanings, st.randoms(use_true_random=False), st.randoms(use_true_random=False))
def test_two_spellings_of_one_meaning_plan_empty(meaning: Meaning, one: random.Random, other: random.Random) -> None:
    before, after = _described(_spelled(meaning, one)), _described(_spelled(meaning, other))
    plan = make_plan(after, running(before, after), now=NOW)
    assert plan.changes == ()
    assert plan.fires_before == plan.fires_after


@settings(max_examples=30, deadline=None)
@given(meanings, meanings, st.randoms(use_true_random=False))
def test_two_meanings_never_do(one: Meaning, other: Meaning, chance: random.Random) -> None:
    before, after = _described(_spelled(one, chance)), _described(_spelled(other, chance))
    plan = make_plan(after, running(before), now=NOW)
    assert plan.has_changes == (_without_zone(one) != _without_zone(other))


def _without_zone(meaning: Meaning) -> Meaning:
    """An interval has no zone, and where one is chosen for it nothing is written."""
    rows = tuple(
        (when, timeout, zone if when < len(CRONS) else 0, payload) for when, timeout, zone, payload in meaning.schedules
    )
    return Meaning(schedules=rows, env=meaning.env, concurrency=meaning.concurrency)
