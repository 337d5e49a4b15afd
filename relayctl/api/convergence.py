"""How far the live workers of a fleet are with a release, at one moment. It waits for nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from relayctl.core.release import lacking
from relayctl.store.fleet import LIVE_MS
from relayctl.store.releases import held_of

if TYPE_CHECKING:
    from relayctl.core.release import Release
    from relayctl.store.fleet import Fleet
    from relayctl.store.releases import Releases

_NEWER = "it is of a newer relayctl: what it runs is not known here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """Worker to what keeps it from the release, at one moment; `superseded_by` is a later release, 0 for none."""

    lacks: Mapping[str, tuple[str, ...]]
    superseded_by: int = 0

    @property
    def on_it(self) -> int:
        """How many workers have taken it."""
        return sum(1 for lacks in self.lacks.values() if not lacks)

    @property
    def is_done(self) -> bool:
        """Whether all have, or none lives."""
        return self.on_it == len(self.lacks)


def convergence(fleet: Fleet, releases: Releases, release: Release, *, now_ms: float) -> Convergence:
    """Ask every live worker's records. Raises BrokerUnavailable or BrokerRefused."""
    serial = releases.serial()
    records, newer = fleet.survey()
    live = [record for record in records if now_ms - record.beat_ms < LIVE_MS]
    holdings = fleet.holdings(record.id for record in live)
    lacks = {record.id: lacking(held_of(record, holdings.get(record.id)), release.revisions) for record in live}
    lacks |= {worker: (_NEWER,) for worker, beat_ms in newer.items() if now_ms - beat_ms < LIVE_MS}
    return Convergence(lacks=lacks, superseded_by=serial if serial > release.serial else 0)


def live_workers(fleet: Fleet, now_ms: float) -> list[str]:
    """The ids of all that live, whatever their version. Raises as `convergence`."""
    records, newer = fleet.survey()
    beats = {record.id: record.beat_ms for record in records} | newer
    return sorted(worker for worker, beat_ms in beats.items() if now_ms - beat_ms < LIVE_MS)
