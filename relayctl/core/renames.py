"""Which schedules of a plan go on under other names: by what `moved_from` says, and by the registry's earlier moves.

It decides nothing about what is moved, and says what a publication of the plan will come to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from relayctl.core.definition import TOMBSTONE
from relayctl.core.description import Description
from relayctl.core.names import split_name
from relayctl.core.running import Name, Running


class Renames:
    """The moves between what runs and what is desired; `held` are apps of which nobody knows what they desire."""

    def __init__(self, desired: Mapping[str, Description], running: Running, held: Collection[str]) -> None:
        self._desired = desired
        self._running = running
        self._held = held

    def old_name(self, app: str, name: str) -> Name | None:
        """What a schedule that is created was called so far; None where it really begins."""
        entry = self._running.registry.get((app, name))
        if entry is not None and entry.hash != TOMBSTONE:
            return None
        # A move that is taken back counts first: what the template says was done before.
        said = ("" if entry is None else entry.moved_to, self.said(app, name))
        found = (split_name(text) for text in said if text)
        return next((old for old in found if self._goes(old)), None)

    def said(self, app: str, name: str) -> str:
        """What its template says, as app/schedule, or empty."""
        described = self._desired.get(app)
        return "" if described is None else described.schedules.get(name, {}).get("moved_from", "")

    def is_unfounded(self, app: str, name: str) -> bool:
        """Whether its template names a former name of which nothing is known, for a schedule that begins."""
        return bool(self.said(app, name)) and (app, name) not in self._running.registry

    def late_heir(self, old: Name) -> str:
        """The schedule that names this one as what it was, and has begun without it; empty where there is none."""
        return next(
            (f"{app}/{name}" for app, name in self._heirs.get("/".join(old), ()) if self._runs((app, name))), ""
        )

    @cached_property
    def _heirs(self) -> Mapping[str, Sequence[Name]]:
        """By what they say they were."""
        found: dict[str, list[Name]] = {}
        for app, described in sorted(self._desired.items()):
            for name, fields in sorted(described.schedules.items()):
                if former := fields.get("moved_from", ""):
                    found.setdefault(former, []).append((app, name))
        return found

    def _runs(self, name: Name) -> bool:
        entry = self._running.registry.get(name)
        return entry is not None and entry.hash != TOMBSTONE

    def _goes(self, old: Name) -> bool:
        entry, described = self._running.registry.get(old), self._desired.get(old[0])
        if entry is None or entry.hash == TOMBSTONE or old[0] in self._held:
            return False
        return described is None or old[1] not in described.schedules
