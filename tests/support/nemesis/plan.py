"""The timetable: what is done to whom and when, as data that a seed decides."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

HURTS = {
    "kill-worker": (1.5, 4.0),
    "stop-worker": (3.0, 12.0),
    "drain-worker": (1.0, 2.0),
    "cut": (2.0, 12.0),
    "deafen": (0.5, 3.0),
    "half-close": (0.5, 1.0),
    "slow": (3.0, 8.0),
    "full-outbox": (4.0, 12.0),
    "kill-broker": (0.5, 9.0),
    "stop-broker": (1.0, 8.0),
}
"""Deeds against workers and broker, with how long they last."""
CHANGES = ("edit", "break", "pause", "remove", "trigger", "drop-group", "flush-scripts", "edit")
LONG_OUTAGE_S = 80.0
_BROKER = -1
_BREATH_S = 6.0
"""Between two deeds against the broker, so that a row of short outages is not a long one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What is done `at_s` seconds after the start, and undone `lasts_s` later. `which` chooses a worker or a schedule."""

    at_s: float
    kind: str
    which: int = 0
    lasts_s: float = 0.0


def timetable(seed: int, length_s: float, *, workers: int = 3) -> tuple[Deed, ...]:
    """What a seed decides. With five minutes or more there is one outage that makes firings be missed by design."""
    chance = random.Random(seed)
    outage = length_s / 2 if length_s >= 300 else None
    deeds = [*_hurts(chance, length_s, workers, outage), *_changes(chance, length_s)]
    if outage is not None:
        deeds.append(Deed(at_s=outage, kind="kill-broker", lasts_s=LONG_OUTAGE_S))
    return tuple(sorted(deeds, key=lambda deed: deed.at_s))


def _decks(chance: random.Random, cards: Sequence[str]) -> Iterator[str]:
    """Each card comes before any comes twice as often."""
    while True:
        yield from chance.sample(cards, len(cards))


def _hurts(chance: random.Random, length_s: float, workers: int, outage: float | None) -> Iterator[Deed]:
    free_at: dict[int, float] = {}
    at = 2.0
    for kind in _decks(chance, tuple(HURTS)):
        shortest, longest = HURTS[kind]
        lasts = chance.uniform(shortest, longest)
        which = _BROKER if kind.endswith("broker") else chance.randrange(workers)
        at = max(at, free_at.get(which, 0.0))
        if outage is not None and outage - 25.0 < at + lasts and at < outage + LONG_OUTAGE_S + 35.0:
            # Nothing else happens around it, so that what has to be published in spite of it is certain.
            at = outage + LONG_OUTAGE_S + 35.0
        if at + lasts >= length_s:
            return
        yield Deed(at_s=at, kind=kind, which=max(which, 0), lasts_s=lasts)
        free_at[which] = at + lasts + (_BREATH_S if which == _BROKER else 2.0)
        at += chance.uniform(1.5, 4.5)


def _changes(chance: random.Random, length_s: float) -> Iterator[Deed]:
    at = 4.0
    for kind in _decks(chance, CHANGES):
        lasts = chance.uniform(4.0, 9.0)
        if at + lasts >= length_s:
            return
        yield Deed(at_s=at, kind=kind, which=chance.randrange(1000), lasts_s=lasts)
        at += chance.uniform(2.5, 6.0)
