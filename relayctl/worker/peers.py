"""The live fleet as this worker sees it, and the order in which workers act on each schedule.

Correctness never rests on this: whoever comes second hears `duplicate`. It keeps a healthy fleet from paying
workers times schedules.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from relayctl.core.timing import delay_of_rank, rank_of
from relayctl.store.fleet import LIVE_MS, Holdings, WorkerRecord

if TYPE_CHECKING:
    from relayctl.store.fleet import Fleet
    from relayctl.worker.agenda import Job

_MS = timedelta(milliseconds=1)


class Peers:
    """Live workers and what they hold. `seq` counts the changes that can alter an order."""

    def __init__(self, fleet: Fleet, worker: str) -> None:
        self._fleet = fleet
        self._worker = worker
        self._records: dict[str, WorkerRecord] = {}
        self._holdings: dict[str, Holdings] = {}
        self._by_app: dict[str, tuple[str, ...]] = {}
        self.newer: tuple[str, ...] = ()
        """Live workers whose records a newer relayctl wrote: what they hold cannot be known here."""
        self.seq = 0

    @property
    def records(self) -> tuple[WorkerRecord, ...]:
        """The records of all live workers."""
        return tuple(self._records.values())

    @property
    def publishers(self) -> frozenset[str]:
        """The live workers that publish, whatever they hold."""
        return frozenset(name for name, record in list(self._records.items()) if record.is_publishing)

    def wants_verdicts(self) -> bool:
        """Whether a live worker has an event rule for verdicts."""
        return any(record.wants_verdicts for record in list(self._records.values()))

    def update(self, now_ms: int) -> None:
        """Look at the fleet again; holdings are read only where they changed."""
        found, newer = self._fleet.survey()
        # A beat that lies well ahead was written before the broker's clock went back: its worker beats no more.
        records = {record.id: record for record in found if abs(now_ms - record.beat_ms) < LIVE_MS}
        self.newer = tuple(worker for worker, beat_ms in newer.items() if abs(now_ms - beat_ms) < LIVE_MS)
        stale = [
            name
            for name, record in records.items()
            if name not in self._holdings or self._records[name].holdings_seq != record.holdings_seq
        ]
        holdings = {name: held for name, held in self._holdings.items() if name in records}
        holdings |= self._fleet.holdings(stale)
        by_app = _by_app(records, holdings)
        # A record without its list yet is asked for again next time.
        self._records = {name: record for name, record in records.items() if name in holdings}
        self._holdings = holdings
        if by_app != self._by_app:
            self._by_app = by_app
            self.seq += 1

    def delay_ms(self, job: Job) -> int:
        """How long after its due time this worker acts on the job."""
        if job.rank_seq != self.seq:
            job.rank = rank_of(self._worker, self._by_app.get(job.app, ()), f"{job.app}/{job.schedule}")
            job.rank_seq = self.seq
        return delay_of_rank(job.rank) // _MS

    def audits(self, app: str) -> bool:
        """Whether this worker audits the app: the second of its publishers if there are two, so that another looks."""
        workers = self._by_app.get(app, ())
        return self._worker in workers and rank_of(self._worker, workers, app) == min(2, len(workers))

    def audits_removed(self, app: str) -> bool:
        """Whether this worker ends the account of a removed schedule: who audits the app, or anyone if it is gone."""
        if self._by_app.get(app):
            return self.audits(app)
        workers = self.publishers
        return self._worker in workers and rank_of(self._worker, workers, app) == 1

    def holders(self, name: str) -> dict[str, str]:
        """Which live worker holds which definition (its hash) of `app/schedule`."""
        return {worker: held.schedules[name] for worker, held in self._holdings.items() if name in held.schedules}

    def has_app(self, app: str) -> bool:
        """Whether any live worker has that app, or one whose apps cannot be known here lives."""
        return bool(self.newer) or any(app in held.apps for held in list(self._holdings.values()))

    def has_whole(self) -> bool:
        """Whether a live worker is for all apps that there are."""
        return any(not record.is_partial for record in list(self._records.values()))

    @property
    def apps(self) -> frozenset[str]:
        """The apps that live workers have, as far as that can be known here."""
        return frozenset(app for held in list(self._holdings.values()) for app in held.apps)

    def can_run(self, app: str) -> bool:
        """The same, leaving out those that say that they cannot run it."""
        return bool(self.newer) or any(
            app in held.apps and not self._is_unable(worker, app) for worker, held in list(self._holdings.items())
        )

    def lacking(self, app: str, schedule: str) -> list[str]:
        """The live workers whose files could have that schedule and have not."""
        return [
            worker
            for worker, held in self._holdings.items()
            if f"{app}/{schedule}" not in held.schedules and (app in held.apps or not self._is_partial(worker))
        ]

    def _is_unable(self, worker: str, app: str) -> bool:
        record = self._records.get(worker)
        return record is not None and app in record.unable

    def _is_partial(self, worker: str) -> bool:
        # Asked from other threads than the one that updates: the record may just have gone.
        record = self._records.get(worker)
        return record is not None and record.is_partial


def _by_app(records: dict[str, WorkerRecord], holdings: dict[str, Holdings]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for worker, record in sorted(records.items()):
        if record.is_publishing and worker in holdings:
            for app in holdings[worker].apps:
                found.setdefault(app, []).append(worker)
    return {app: tuple(workers) for app, workers in found.items()}
