"""What this worker has told the fleet of each of its apps, so that only what changed is described and sent again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from relayctl.core.description import describe_app

if TYPE_CHECKING:
    from relayctl.core.model import App
    from relayctl.store.fleet import Fleet
    from relayctl.worker.snapshot import LiveApp

_Described = tuple["App", str, str]
"""An app, its revision, and the description of both."""


class Reported:
    """Used by the reconciler's thread."""

    def __init__(self, fleet: Fleet, worker: str) -> None:
        self._fleet = fleet
        self._worker = worker
        self._told: dict[str, str] = {}
        self._described: dict[str, _Described] = {}

    def tell(self, live: Mapping[str, LiveApp]) -> None:
        """These run. Raises BrokerError, and tells it again the next time then."""
        known = self._described
        self._described = {name: _described(item, known.get(name)) for name, item in live.items()}
        texts = {name: text for name, (_, _, text) in self._described.items()}
        changed = {name: text for name, text in texts.items() if self._told.get(name) != text}
        self._fleet.report(self._worker, changed, self._told.keys() - texts.keys())
        self._told = texts

    def forget(self) -> None:
        """The broker does not know what it was told."""
        self._told = {}


def _described(item: LiveApp, known: _Described | None) -> _Described:
    # What was not loaded anew is the same object.
    if known is not None and known[0] is item.app and known[1] == item.revision:
        return known
    return item.app, item.revision, describe_app(item.app, item.revision).to_json()
