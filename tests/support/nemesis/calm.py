"""When the fleet could work: who was able to reach the broker, when nobody was, and when a save had to be in force."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from support.nemesis.story import FLEET, Story

Stretch = tuple[float, float]

SETTLE_S = 15.0
"""So long one worker has to be left alone before whatever the fleet owes may be asked of it.

A worker that was cut off waits up to a second before it asks again, one that was killed starts in some seconds on a
busy machine, and a removal waits for two quiet seconds.
"""


def merged(stretches: Iterable[Stretch]) -> list[Stretch]:
    """The same time as stretches that neither touch nor overlap, in order."""
    found: list[Stretch] = []
    for start, end in sorted(stretches):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def common(some: Sequence[Stretch], others: Sequence[Stretch]) -> list[Stretch]:
    """The time that lies in both."""
    both = ((max(a, c), min(b, d)) for a, b in some for c, d in others)
    return [stretch for stretch in both if stretch[0] < stretch[1]]


class Calm:
    """Questions about the troubles of one story."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self.away = {
            worker: merged(
                (it.start, it.end) for it in story.troubles if it.worker in {worker, FLEET} and it.keeps_away
            )
            for worker in story.workers
        }

    def blind(self) -> list[Stretch]:
        """The stretches in which no worker could reach the broker."""
        found: list[Stretch] = [(-math.inf, math.inf)]
        for stretches in self.away.values():
            found = common(found, stretches)
        return found

    def away_s(self, worker: str, first: float, last: float) -> float:
        """The longest time within that span for which this worker was kept away."""
        parts = common(self.away.get(worker, []), [(first, last)])
        return max((end - start for start, end in parts), default=0.0)

    def is_troubled(self, first: float, last: float) -> bool:
        """Whether anything happened to anybody in that span."""
        return any(trouble.overlaps(first, last) for trouble in self._story.troubles)

    def troubles(self, first: float, last: float) -> int:
        """How many things happened in that span."""
        return sum(trouble.overlaps(first, last) for trouble in self._story.troubles)

    def has_watcher(self, first: float, last: float) -> bool:
        """Whether some worker was left alone for all of that span."""
        return any(not common(away, [(first, last)]) for away in self.away.values())

    def settled_by(self, since: float, *, alone_s: float = SETTLE_S, restless: Sequence[float] = ()) -> float:
        """When some worker had been left alone for so long since then, and the tree too where that counts."""
        saves = [(at, at) for at in restless if at > since]
        stretches = (merged([*away, *saves]) for away in self.away.values())
        return min((_alone(since, away, alone_s) for away in stretches), default=math.inf)


def _alone(since: float, away: Sequence[Stretch], alone_s: float) -> float:
    at = since
    for start, end in away:
        if start - at >= alone_s:
            break
        at = max(at, end)
    return at + alone_s
