"""Claims in hand: granted, not begun, and waiting for a child of their app that is about to be free.

It says how many are worth having and which have waited too long; who starts them or gives them back decides elsewhere.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relayctl.core.lifecycle import Claim

PER_CHILD = 8
AHEAD_S = 0.02
"""Only what the children get done in this time, by their last runs, is worth having in hand."""
HELD_AT_MOST_S = 0.5
"""Longer than that a claim keeps nobody else from running it."""
REST_S = 5.0
"""After a claim has waited too long, its app is taken for slow for so long."""
_WEIGHT = 0.125


class InHand:
    """The claims in hand of one worker, by app. It locks nothing: whoever uses it does. Instants are monotonic."""

    def __init__(self) -> None:
        self._held: dict[str, deque[tuple[float, Claim]]] = {}
        self._mean_s: dict[str, float] = {}
        self._rests_until: dict[str, float] = {}
        self._is_closed = False

    def ran(self, app: str, took_s: float) -> None:
        """A run of the app took so long."""
        mean = self._mean_s.get(app)
        self._mean_s[app] = took_s if mean is None else mean + (took_s - mean) * _WEIGHT

    def room(self, app: str, children: int, now: float) -> int:
        """How many more claims of an app with so many children may be taken in hand."""
        if self._is_closed or self._rests_until.get(app, 0.0) > now:
            return 0
        return max(0, self._worth(app, children) - self.count(app))

    def is_low(self, app: str, children: int) -> bool:
        """Whether so few are left that it is time to ask for more, or for the first ones."""
        return self.count(app) * 2 <= self._worth(app, children)

    def _worth(self, app: str, children: int) -> int:
        mean = self._mean_s.get(app)
        if mean is None or mean > AHEAD_S:
            return 0
        return children * min(PER_CHILD, int(AHEAD_S / max(mean, 1e-6)))

    def take(self, claims: Sequence[Claim], now: float) -> bool:
        """Take these in hand, behind those that are there; False where none is taken any more."""
        if self._is_closed:
            return False
        for claim in claims:
            self._held.setdefault(claim.app, deque()).append((now, claim))
        return True

    def count(self, app: str) -> int:
        """How many of the app are in hand."""
        held = self._held.get(app)
        return len(held) if held else 0

    def total(self) -> int:
        """How many are in hand at all."""
        return sum(map(len, self._held.values())) if self._held else 0

    def apps(self) -> list[str]:
        """Apps with claims in hand."""
        return list(self._held)

    def next(self, app: str) -> Claim:
        """Let go of the one that came first, to begin it."""
        held = self._held[app]
        _, claim = held.popleft()
        if not held:
            del self._held[app]
        return claim

    def drop(self, app: str) -> list[Claim]:
        """Let go of all of the app, whose last runs say nothing of its next ones; the claims."""
        self._mean_s.pop(app, None)
        return [claim for _, claim in self._held.pop(app, ())]

    def late(self, now: float) -> list[Claim]:
        """Let go of all claims of an app of which one has waited too long; the claims."""
        slow = [app for app, held in self._held.items() if held[0][0] + HELD_AT_MOST_S <= now]
        self._rests_until |= dict.fromkeys(slow, now + REST_S)
        return [claim for app in slow for claim in self.drop(app)]

    def late_at(self) -> float | None:
        """When the first of them has waited too long; None while nothing is in hand."""
        return min(held[0][0] for held in self._held.values()) + HELD_AT_MOST_S if self._held else None

    def pull(self, claim: Claim) -> bool:
        """Let go of this one; whether it was in hand."""
        held = self._held.get(claim.app, ())
        left = deque(item for item in held if item[1] is not claim)
        if len(left) == len(held):
            return False
        if left:
            self._held[claim.app] = left
        else:
            del self._held[claim.app]
        return True

    def close(self) -> list[Claim]:
        """Take nothing in hand any more; what was."""
        self._is_closed = True
        held, self._held = self._held, {}
        return [claim for items in held.values() for _, claim in items]
