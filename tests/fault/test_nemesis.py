"""A fleet under somebody who hurts it by a timetable; afterwards a judge reads the account. See CONTRIBUTING.md.

NEMESIS_SEED chooses the timetable, NEMESIS_MINUTES how long the long run lasts.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

import pytest
from support.nemesis.apps import forty
from support.nemesis.checker import check
from support.nemesis.plan import timetable
from support.nemesis.plays import PROVOCATIONS
from support.nemesis.stage import Play, Result, perform, private_broker

pytestmark = pytest.mark.fault
SEED = int(os.environ.get("NEMESIS_SEED") or 7)
MINUTES = float(os.environ.get("NEMESIS_MINUTES") or 10)
SUITE_S = 90.0
_SETTLES_WITHIN_S = 25.0
_SHOWN = 40


def performed(play: Play) -> Result:
    with private_broker() as (root, broker):
        return perform(play, root, broker)


def verdict(result: Result, seed: int) -> str:
    """What the judge says, and what explains it; nothing if all is well."""
    found = check(result.story)
    odd = [f"exit codes {list(result.codes)}"] if any(result.codes) else []
    odd += [f"a worker said what is no fact: {line}" for line in result.noise[:_SHOWN]]
    if not found and not odd:
        return ""
    rules = Counter(finding.rule for finding in found)
    told = [fact for finding in found[:5] for fact in result.told_of(finding.about.rpartition(" ")[2])[-20:]]
    parts = [
        f"seed {seed}: {dict(rules)}; to run it again: make fault SEED={seed} MINUTES={MINUTES:g}",
        *map(str, found[:_SHOWN]),
        *odd,
        result.summary(),
        "what was done:",
        *result.deeds,
        "what was told of the first findings:",
        *told,
    ]
    return "\n".join(parts)


def trial(seed: int, length_s: float) -> None:
    print(f"nemesis: seed {seed}, {length_s:g} s")
    result = performed(Play(wanted=forty(), deeds=timetable(seed, length_s), length_s=length_s))
    print(result.summary())
    said = verdict(result, seed)
    assert said == "", said


@pytest.mark.timeout(300)
def test_ninety_seconds_of_trouble_lose_and_double_nothing() -> None:
    trial(SEED, SUITE_S)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_a_long_trouble_loses_and_doubles_nothing() -> None:
    """With an outage of more than a minute, whose firings go by the policy."""
    trial(SEED, MINUTES * 60)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", PROVOCATIONS)
def test_the_judge_finds_a_deliberate_break(name: str) -> None:
    provocation = PROVOCATIONS[name]
    play = replace(provocation.play, broken=name, settles_within_s=_SETTLES_WITHIN_S)
    found = check(performed(play).story)
    assert provocation.rule in {finding.rule for finding in found}, [str(finding) for finding in found]


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", PROVOCATIONS)
def test_the_same_without_the_break_is_clean(name: str) -> None:
    said = verdict(performed(replace(PROVOCATIONS[name].play, settles_within_s=60)), SEED)
    assert said == "", said
