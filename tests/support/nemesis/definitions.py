"""Whether the registry's definitions are those of the templates, one after the other and in time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from support.nemesis.calm import SETTLE_S, Calm
from support.nemesis.story import Edit, Generation, Name, Story

_SEES_S = 3.0
_ADOPTS_S = 45.0
_CLOCK_S = 0.05
"""Saves are timed by another process than the broker, on the same machine."""


def generations(story: Story, calm: Calm) -> Iterator[tuple[Name, float, str]]:
    """Intervals follow one another, and each definition stood in the templates when it came into force."""
    for name, ledger in story.account.ledgers.items():
        for before, after in pairwise(ledger.generations):
            if before.to_ms != after.from_ms or before.to_ms < before.from_ms:
                yield (
                    name,
                    after.from_ms / 1000,
                    f"generation {after.gen} begins at {after.from_ms} ms, and {before.gen} ends at {before.to_ms} ms",
                )
        for item in ledger.generations:
            if not any(_allows(edit, until, item) for edit, until in _windows(story, calm, name)):
                yield (
                    name,
                    item.from_ms / 1000,
                    (
                        f"generation {item.gen} ({_words(item.every)}) comes into force, "
                        "and the templates did not say so then"
                    ),
                )


def in_force(story: Story, calm: Calm) -> Iterator[tuple[Name, float, str]]:
    """What the templates say is in force once a worker had time to see it, until they say something else."""
    for name in dict.fromkeys(edit.name for edit in story.edits):
        ledger = story.account.ledgers.get(name)
        known = () if ledger is None else ledger.generations
        edits = edits_of(story, name)
        for edit, following in zip(edits, [*edits[1:], None], strict=True):
            due = settled(story, calm, edit)
            if due >= (story.until if following is None else following.begun):
                continue
            found = at(known, due)
            if (None if found is None else found.every) != edit.every:
                what = "nothing is in force" if found is None else f"generation {found.gen} is, {_words(found.every)}"
                yield name, due, f"the templates have said {_words(edit.every)} since {edit.saved:.3f}; {what}"


def edits_of(story: Story, name: Name) -> list[Edit]:
    """The edits of one schedule in order."""
    return sorted((edit for edit in story.edits if edit.name == name), key=lambda edit: edit.saved)


def settled(story: Story, calm: Calm, edit: Edit) -> float:
    """By when that edit has to be in force.

    Content that was never seen is taken from whoever has it. A removal, and a return to what was before, is taken from
    a worker that saw it happen, or else by adoption, which waits for thirty seconds without a holder of the present one.
    """
    earlier = [item for item in edits_of(story, edit.name) if item.saved < edit.saved]
    if not earlier or (edit.every is not None and all(item.every != edit.every for item in earlier)):
        return calm.settled_by(edit.saved)
    restless = story.restless if edit.every is None else ()
    quiet = max([edit.saved, *(at for at in restless if edit.saved < at < edit.saved + SETTLE_S)])
    if calm.has_watcher(earlier[-1].begun - _SEES_S, quiet + SETTLE_S):
        return quiet + SETTLE_S
    return calm.settled_by(edit.saved, alone_s=_ADOPTS_S, restless=restless)


def at(known: Sequence[Generation], instant: float) -> Generation | None:
    """The generation in force at an instant."""
    ms = instant * 1000
    return next((item for item in known if item.from_ms <= ms and (item.to_ms is None or ms < item.to_ms)), None)


def _windows(story: Story, calm: Calm, name: Name) -> Iterator[tuple[Edit, float]]:
    """Each edit, and until when a slow worker may still bring it: when the next one had to be in force."""
    edits = edits_of(story, name)
    for edit, following in zip(edits, [*edits[1:], None], strict=True):
        yield edit, math.inf if following is None else settled(story, calm, following)


def _allows(edit: Edit, until: float, item: Generation) -> bool:
    return edit.every == item.every and edit.begun - _CLOCK_S <= item.from_ms / 1000 <= until


def _words(every: int | None) -> str:
    return "no schedule" if every is None else f"every {every} s"
