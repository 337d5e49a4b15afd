"""Makes this worker run what its source says: load what changed, keep the last good of what is broken, swap the rest.

Additions and edits go live at once; removals and reports of broken files wait until the tree has been quiet. Nothing
that was not edited is touched. What the registry makes of it is the registrar's business.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.core.facts import Emit, LoopFailed, StateLost
from relayctl.errors import BrokerError, BrokerUnavailable, ModeConflict
from relayctl.host.cycle.loop import evenly, jittered
from relayctl.store.definitions import Mode
from relayctl.store.fleet import Holdings
from relayctl.worker.burial import Burial
from relayctl.worker.elsewhere import Elsewhere
from relayctl.worker.hints import Hints
from relayctl.worker.knowntree import KnownTree
from relayctl.worker.removalguard import RemovalGuard, names_of
from relayctl.worker.reported import Reported
from relayctl.worker.revival import Revival
from relayctl.worker.snapshot import Changes, LiveApp, Snapshot
from relayctl.worker.supplier import AsTheyAre
from relayctl.worker.treenews import TreeNews, schedules_of

if TYPE_CHECKING:
    from relayctl.core.running import BrokenApp
    from relayctl.host.clock import Clock
    from relayctl.sources.lastgood import LastGood
    from relayctl.sources.source import Source, View
    from relayctl.store.fleet import Fleet, Pulse
    from relayctl.worker.agenda import Name
    from relayctl.worker.binding import Binding
    from relayctl.worker.keeper import Keeper
    from relayctl.worker.registrar import Registrar
    from relayctl.worker.supplier import Supplier

QUIET_S = 2.0
HOUSEKEEPING_S = 2.0
VANISHED_S = 120.0
"""An app that was gone at the start may be on its way for so long, as on a mount that comes up late."""
_RESTORE_POLL_S = 0.1


class Reconciler:
    """The loop from the source to what runs. `run` owns it; `hint` and `on_pulse` may be called from anywhere."""

    # Read by other loops, so plain values that are replaced whole.
    holdings_seq = 0
    drift = 0
    broken_names: tuple[str, ...] = ()
    broken_apps: tuple[BrokenApp, ...] = ()
    unbuilt: frozenset[str] = frozenset()
    """Apps that wait for their environment; another version of them may be live."""
    has_looked = False

    def __init__(
        self,
        *,
        source: Source,
        registrar: Registrar,
        fleet: Fleet,
        worker: str,
        swap: Callable[[Snapshot, Changes], None],
        announce: Callable[[], None],
        clock: Clock,
        resync: timedelta | None,
        emit: Emit,
        keeper: Keeper | None = None,
        last_good: LastGood | None = None,
        environments: Supplier | None = None,
        builds: Callable[[], Collection[Path] | None] = frozenset,
        binding: Binding | None = None,
        on_housekeeping: Callable[[], None] = lambda: None,
    ) -> None:
        """`swap` puts a snapshot in force, `announce` makes the heartbeat say what is held now, `keeper` remembers what
        a new broker must hear first, `last_good` what runs beside a tree that cannot be read, `builds` what runs.
        `on_housekeeping` is what else is looked at every few seconds by a loop that may wait for a disk."""
        self._keeper = keeper
        self._source = source
        self._registrar = registrar
        self._fleet = fleet
        self._worker = worker
        self._swap = swap
        self._announce = announce
        self._clock = clock
        self._resync = resync
        self._emit = emit
        self._builds = builds
        self._binding = binding
        self._on_housekeeping = on_housekeeping
        self._environments = environments or AsTheyAre()
        self._news = TreeNews(source.label, clock, emit)
        self._revival = Revival(last_good, source)
        self.elsewhere = Elsewhere(source)
        self._hints = Hints()
        self._refused = ""
        self._snapshot = Snapshot()
        self._tree = KnownTree(source)
        self._guard = RemovalGuard(registrar, fleet, emit)
        self._revision = ""
        self._changed_at = 0.0
        self._is_first = True
        self._is_pending = False
        self._is_registered = True
        self._removed: set[str] = set()
        self._look_at = 0.0
        self._house_at = 0.0
        self._pulse: Pulse | None = None
        self._epoch = ""
        self._burial = Burial(registrar, fleet, emit)
        self._reported = Reported(fleet, worker)
        self._unread: frozenset[str] = frozenset()
        self.last_pass_at = clock.monotonic()

    @property
    def snapshot(self) -> Snapshot:
        """What is live."""
        return self._snapshot

    @property
    def revision(self) -> str:
        """The digest of the tree as it was last seen."""
        return self._revision

    @property
    def _unclear(self) -> set[str]:
        """The apps of whose newest version nothing can be done yet, so that it is no evidence against another."""
        return self._tree.broken.keys() | self._tree.misfits.keys() | self.unbuilt

    @property
    def is_source_lost(self) -> bool:
        """Whether the source could not be read at the last look."""
        return self._news.is_lost

    @property
    def unread(self) -> frozenset[str] | None:
        """The apps that cannot be read and have no version that is known here; None where any may be one of them."""
        unread, others = self._source.only if self._news.is_lost else self._unread, self.elsewhere.unread
        return None if unread is None or others is None else unread | others

    @property
    def held_removal(self) -> str:
        """The revision whose removals wait for consent, or empty."""
        return self._guard.held or self._burial.held

    @property
    def notes(self) -> tuple[str, ...]:
        """What the fleet's status is to say of this worker's tree."""
        held = self.held_removal
        return (f"removals are held; if intended: relayctl reconcile --accept-removals {held}",) if held else ()

    @property
    def is_abreast(self) -> bool:
        """Whether what is armed is registered with the broker that the last heartbeat met."""
        if self._keeper is not None and self._keeper.is_waiting:
            return False
        return self._is_registered and (self._pulse is None or self._epoch in {"", self._pulse.epoch})

    def hint(self, touched: Collection[str] | None) -> None:
        """Something changed in these apps, or anywhere (None): look soon."""
        self._hints.touched(touched)

    def on_pulse(self, pulse: Pulse) -> None:
        """Hear a heartbeat's answer; cheap, since the tick loop calls it."""
        before, self._pulse = self._pulse, pulse
        is_news = before is None or (before.definitions_seq, before.epoch) != (pulse.definitions_seq, pulse.epoch)
        if is_news or not self._is_registered:
            self._hints.ring()

    def refresh(self, names: Collection[Name]) -> None:
        """The registry knows another definition of these schedules: ask it soon."""
        self._hints.superseded(names)

    def run(self, stop: threading.Event) -> None:
        """Come round until `stop` is set; whoever sets it also calls `wake`."""
        while not stop.is_set():
            wait_s = HOUSEKEEPING_S
            try:
                wait_s = self.step()
            except BrokerError as error:
                # What was not registered is tried again. Of a broker that is away, the tick loop tells.
                self._is_registered = False
                if not error.is_retryable:
                    self._tell_refused(error.message)
            except Exception as error:  # noqa: BLE001  a bad file must not end reconciling
                self._emit(LoopFailed(loop="reconciler", reason=f"{type(error).__name__}: {error}"))
                self._hints.lose_track()
            self._hints.wait(self._clock, wait_s)

    def wake(self) -> None:
        """Make the loop come round now."""
        self._hints.ring()

    def _tell_refused(self, reason: str) -> None:
        if reason != self._refused:
            self._refused = reason
            self._emit(LoopFailed(loop="reconciler", reason=reason))

    def step(self) -> float:
        """One pass; the seconds until the next is due."""
        now = self._clock.monotonic()
        epoch = None if self._pulse is None else self._pulse.epoch
        if self._keeper is not None and self._keeper.is_restoring(epoch, now):
            return _RESTORE_POLL_S
        touched = self._hints.take_touched()
        is_due = now >= self._look_at
        if is_due or touched is None or touched or self._is_pending or not self._is_registered:
            self._look(None if is_due or touched is None else touched, now)
            if is_due:
                self._plan_look(now)
                self._fleet.forget_consumers()
                self._registrar.look_at_all()
                self._registrar.renames.put_home(again=True)
                self._revival.keep()
                self._forget_vanished(now)
        self._keep_house(now)
        self._refused = ""
        self.drift = len(self._registrar.behind)
        broken = self._tree.broken.keys()
        self.broken_apps = self._news.records(broken | self._tree.misfits.keys())
        self.broken_names = tuple(sorted(broken))
        self.last_pass_at = self._clock.monotonic()
        wait = min(self._look_at, self._house_at) - self._clock.monotonic()
        return max(0.0, min(wait, 0.25) if self._is_pending else wait)

    def _plan_look(self, now: float) -> None:
        if self._resync is None:
            self._look_at = float("inf")
            return
        self._look_at = now + jittered(self._resync.total_seconds(), evenly())

    # The tree

    def _look(self, touched: set[str] | None, now: float) -> None:
        view = self._source.look(touched)
        self.elsewhere.look()
        trouble = view.trouble or self._emptied(view)
        if trouble:
            self._go_on_without(trouble, is_awaited=view.is_awaited)
            return
        if view.stale is None:
            self._news.back()
        else:
            self._news.lost(view.stale, running=len(view.apps), is_last_good=False)
        if view.revision != self._revision:
            self._revision, self._changed_at = view.revision, now
        is_quiet = self._is_first or view.is_settled or (now - self._changed_at >= QUIET_S and not view.is_busy)
        self._tree.look(view)
        self._apply(view, is_quiet)
        self._is_first = False

    def _emptied(self, view: View) -> str:
        is_bare = not view.apps and not self._tree.misfits_of(view)
        trouble = self._guard.emptied(
            view.revision, is_bare=is_bare, has_more_kept=lambda: self._is_first and self._revival.is_any
        )
        if trouble:
            self._revision = view.revision
        return trouble

    def _go_on_without(self, trouble: str, *, is_awaited: bool) -> None:
        """The tree cannot be read: what is live stays, and at a start what was kept becomes live."""
        live = dict(self._snapshot.live)
        revived = self._environments.revive(self._revival.everything()) if self._is_first else {}
        following = {**revived, **live}
        if is_awaited and not following:
            self._news.awaited()
        else:
            self._news.lost(trouble, running=len(following), is_last_good=bool(revived))
        # What the first readable look lacks, of what runs by then, may be on its way.
        self._is_first = self._is_first and not following
        self._put_in_force(live, following)

    def _apply(self, view: View, is_quiet: bool) -> None:
        live = dict(self._snapshot.live)
        wanted, self.unbuilt = self._environments.provide(self._tree.runnable(view))
        unclear = self._unclear
        kept = live.keys() - wanted.keys() if not is_quiet else live.keys() & unclear
        revived = self._environments.revive(self._revival.of(unclear - live.keys() - wanted.keys()))
        following = {**{name: live[name] for name in kept}, **revived, **wanted}
        following = following if view.is_agreed else self._guard.guarded(live, following, view.revision)
        self._unread = frozenset(unclear - following.keys())
        self._is_pending = not is_quiet and bool(unclear | (live.keys() - wanted.keys()))
        if is_quiet:
            broken = self._tree.broken
            others = len(self._tree.names) - len(broken)
            self._news.broken(self._tree.misfits, broken, others=others, in_force=following.keys())
        self._put_in_force(live, following)
        if is_quiet:
            self._news.forget_all_but(unclear)

    def _in_use(self) -> set[Path] | None:
        builds = self._builds()
        return None if builds is None else {*(item.directory for item in self._snapshot.live.values()), *builds}

    def _put_in_force(self, live: dict[str, LiveApp], following: dict[str, LiveApp]) -> None:
        deployed = {name: item for name, item in following.items() if live.get(name) != item}
        removed = frozenset(live.keys() - following.keys())
        ended = names_of(live) - names_of(following)
        if deployed or removed:
            self._snapshot = Snapshot(following, self._snapshot.seq + 1)
            self._swap(self._snapshot, Changes(deployed=deployed, removed=removed, ended=frozenset(ended)))
        self.has_looked = True
        self._news.changed(live, following, deployed.keys(), self._tree.names - self._tree.broken.keys() - self.unbuilt)
        for loaded in self._tree.went_live(deployed.keys() - self.unbuilt):
            self._revival.note(loaded)
        self._removed = (self._removed | removed) - following.keys()
        if deployed or removed or not self._is_registered:
            self._is_registered = False
            try:
                self._register()
            finally:
                # Last, since a disk may be slow, and in any case, since it is in force here.
                self._revival.keep()
            self._is_registered = True
        self._revival.forget(self._removed)
        self._removed = set()

    def _forget_vanished(self, now: float) -> None:
        """What is kept of apps that left while no worker looked, once their schedules have been let go too."""
        if (
            now - self._changed_at < VANISHED_S
            or self._is_pending
            or self._source.is_partial
            or self.is_source_lost
            or self.held_removal
            or self._is_first
        ):
            return
        known = self._tree.known | self._snapshot.live.keys()
        self._revival.forget_others(known | {app for app, _ in self._registrar.orphans()})

    def _register(self) -> None:
        schedules = schedules_of(self._snapshot.live)
        mode = Mode.START if self.holdings_seq == 0 else Mode.EDIT
        known = self._tree.known
        leaving = {name for name in schedules if name[0] not in known} if self._is_pending else set()
        self._registrar.rename(schedules, mode, leaving)
        self._registrar.withdraw(self._registrar.hashes.keys() - schedules.keys())
        self._registrar.propose(schedules, mode)
        self._hold()

    def _hold(self) -> None:
        holdings = Holdings(
            apps={name: item.revision for name, item in self._snapshot.live.items()},
            schedules={f"{app}/{name}": hash_ for (app, name), hash_ in self._registrar.hashes.items()},
        )
        self._fleet.hold(self._worker, holdings)
        self._reported.tell(self._snapshot.live)
        self.holdings_seq += 1
        self._announce()

    # The fleet

    def _keep_house(self, now: float) -> None:
        pulse = self._pulse
        if pulse is not None:
            if self._epoch and pulse.epoch != self._epoch:
                # The mode went with the rest; whoever set another one meanwhile keeps it.
                with suppress(ModeConflict):
                    self._fleet.enter_mode(self._source.mode)
                self._tell_unknown(self._registrar.forget_registry())
                self._reported.forget()
                self._hold()
            self._epoch = pulse.epoch
            if self._binding is not None and self._binding.look():
                self._source.demand()
            self._registrar.follow(pulse.definitions_seq)
            self._registrar.renames.put_home()
            self._registrar.close_gaps()
            self._registrar.tell_acts()
        if not self._ask_superseded():
            self._house_at = now + HOUSEKEEPING_S
            return
        if now < self._house_at:
            return
        self._house_at = now + HOUSEKEEPING_S
        self._on_housekeeping()
        self._source.settle(self._in_use)
        if self._guard.has_consent:
            self.hint(None)
        if self.holdings_seq and not self._fleet.keep_holdings(self._worker):
            self._reported.forget()
            self._hold()
        if pulse is not None:
            self._registrar.end_pauses(pulse.now_ms)
            self._registrar.look_again()
        unclear = self._snapshot.live.keys() if self.is_source_lost else self._unclear
        self._registrar.adopt_unheld(unclear)
        if not (
            self._source.is_partial or self.is_source_lost or self._is_pending or self._guard.held or self._is_first
        ):
            self._burial.look(self._unclear, self._revision)

    def _ask_superseded(self) -> bool:
        """Ask for what others decided; False where the server is to hear first what it was."""
        superseded = self._hints.take_superseded()
        if not superseded:
            return True
        try:
            if self._keeper is not None and not self._keeper.is_same():
                # It has just lost everything; the next heartbeat brings that about, and wakes this loop.
                self._hints.put_back(superseded)
                return False
            self._registrar.refresh(superseded, is_disputed=True)
        except BrokerUnavailable:
            # The scheduler would say it again much later, and fires none of these until then.
            self._hints.put_back(superseded)
            raise
        return True

    # What is told

    def _tell_unknown(self, names: Collection[Name]) -> None:
        if names:
            self._emit(StateLost(schedules=tuple(sorted(f"{app}/{name}" for app, name in names))))
