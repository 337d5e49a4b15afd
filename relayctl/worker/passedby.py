"""Due work that this worker has asked for in vain and leaves to peers for a while, so that it hides nothing behind it.

An app of which nothing else is due is not asked about all the time: what is left is fetched again with every question.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from relayctl.core.lifecycle import Slot

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from relayctl.host.clock import Clock

Member = tuple[str, str, Slot]
"""An invocation: app, message, slot."""

LEFT_FOR_S = 60.0
SHORTLY_S = 5.0
FEW = 100
_REST_S = 1.0
_LONGEST_REST_S = 5.0
_PER_REST_S = 1000
"""So much that is left of one app is worth a second between two questions."""


class PassedBy:
    """Used by the claimer's thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[tuple[str, str, str], float] = {}
        self._rest_until: dict[str, float] = {}

    def leave(self, item: Member, *, shortly: bool = False) -> None:
        """Leave it alone; `shortly` where a peer may soon be through, unless there is much of that kind."""
        is_short = shortly and len(self._until) < FEW
        app, message, slot = item
        self._until[app, message, slot.text] = self._clock.monotonic() + (SHORTLY_S if is_short else LEFT_FOR_S)

    def forget(self) -> None:
        """What this worker may admit has changed: it asks for everything again."""
        self._until.clear()
        self._rest_until.clear()

    def left(self) -> frozenset[tuple[str, str, str]]:
        """What is left alone now, by app, message and slot."""
        now = self._clock.monotonic()
        self._until = {name: until for name, until in self._until.items() if until > now}
        return frozenset(self._until)

    def rests(self, app: str) -> bool:
        """Whether the app is not asked about now."""
        return self._rest_until.get(app, 0.0) > self._clock.monotonic()

    def found(self, asked: Collection[str], fresh: Mapping[str, int]) -> None:
        """So much else was due of the apps that were asked about: of one with much that is left, and nothing else, a
        rest begins."""
        now = self._clock.monotonic()
        self._rest_until = {app: until for app, until in self._rest_until.items() if until > now}
        if len(self._until) < FEW:
            return
        of_app = Counter(name[0] for name in self._until)
        for app in asked:
            if not fresh.get(app) and of_app[app] >= FEW:
                self._rest_until[app] = now + min(_LONGEST_REST_S, max(_REST_S, of_app[app] / _PER_REST_S))
