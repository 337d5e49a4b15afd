"""Which limits that live apps declare are kept by nothing here: one log line, and words for the worker's record."""

from __future__ import annotations

from collections.abc import Iterable

from relayctl.core.facts import Emit, LimitsUnenforced
from relayctl.core.model import App
from relayctl.runners.cgroups import Delegation
from relayctl.runners.limits import unenforceable, unenforced


class LimitWatch:
    """`look` is for one thread; `note` and `unenforceable` for any."""

    def __init__(self, delegation: Delegation, emit: Emit) -> None:
        self._delegation = delegation
        self._emit = emit
        self._told: set[str] = set()
        self.unenforceable = unenforceable(delegation)
        """Names of limits that no app can have kept here."""
        self.notes: tuple[str, ...] = ()
        """What people should hear about the apps that are live."""

    def look(self, apps: Iterable[App]) -> None:
        """These apps are live now."""
        limits = {limit for app in apps for limit in unenforced(app.resources, self._delegation)}
        names = tuple(sorted(limits))
        why = self._delegation.reason
        self.notes = (f"it does not enforce {' and '.join(names)} of resources: {why}",) if names else ()
        if limits - self._told:
            self._told |= limits
            self._emit(LimitsUnenforced(limits=names, reason=why))
