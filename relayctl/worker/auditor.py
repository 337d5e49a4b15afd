"""The audit loop: compares the firings that were expected with those that are published or closed, and tells of holes.

It publishes nothing. What nobody accounts for is an alarm after a minute and is closed as missed in the end; below
what is all accounted for it raises the floor, which bounds memory. Its cost grows with what fires, not with what is
loaded: two numbers say whether a schedule is in order, and only where they do not is its published set read.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from relayctl.core.account import (
    KEPT_FIRINGS,
    KEPT_FOR_S,
    OVERDUE_AFTER_S,
    Closing,
    Examination,
    Recorded,
    Span,
    examine,
    release,
    span_between,
)
from relayctl.core.definition import TOMBSTONE
from relayctl.core.due import Timeline
from relayctl.core.facts import Emit, LoopFailed, Missed, Overdue
from relayctl.core.lifecycle import Verdict
from relayctl.core.occurrence import from_epoch
from relayctl.errors import BrokerError, BrokerRefused
from relayctl.store.closings import Wish
from relayctl.worker.unreadable import Unreadable

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.store.closings import Account, Closings
    from relayctl.store.definitions import Definitions
    from relayctl.worker.agenda import Name
    from relayctl.worker.fleettime import FleetTime
    from relayctl.worker.peers import Peers
    from relayctl.worker.snapshot import Snapshot

SETTLE_S = 15.0
"""After a start and after an outage the others catch up first, or every firing of the gap would look overdue."""
_MOST_LOOKS = 1000
_MOST_EXAMINED = 50
_LONGEST_WAIT_S = 2.0
_SOON_S = 10
"""A schedule is looked at no more often than this, whatever its interval."""
_AGAIN_S = 30
_RARELY_S = 3600
_SECOND = timedelta(seconds=1)
_FOREVER = 1 << 62


@dataclass(slots=True, kw_only=True)
class _Watched:
    """One schedule under audit. Everything expected up to `mark` is accounted for, and `fields` counts the published
    set without what lies after the mark; epoch seconds. -1 fields: it must be examined.
    """

    name: Name
    gen: int = 0
    timeline: Timeline | None = None
    mark: int = 0
    floor: int | None = None
    fields: int = -1
    oldest: int | None = None
    overdue: frozenset[int] = field(default=frozenset())
    stamp: int = 0


class Auditor:
    """The audit of the apps that this worker audits. `run` owns it; `wake` may come from anywhere."""

    def __init__(
        self,
        *,
        closings: Closings,
        definitions: Definitions,
        peers: Peers,
        snapshot: Callable[[], Snapshot],
        time: FleetTime,
        clock: Clock,
        emit: Emit,
        unreadable: Unreadable | None = None,
    ) -> None:
        """`unreadable` tells of records that relayctl did not write."""
        self._unreadable = unreadable or Unreadable(clock, emit)
        self._closings = closings
        self._definitions = definitions
        self._peers = peers
        self._snapshot = snapshot
        self._time = time
        self._clock = clock
        self._emit = emit
        self._wake = threading.Event()
        self._watched: dict[Name, _Watched] = {}
        self._heap: list[tuple[int, int, _Watched, int]] = []
        self._order = count()
        self._apps: frozenset[str] = frozenset()
        self._own: frozenset[str] = frozenset()
        self._ranked: tuple[int, int] = (-1, -1)
        self._seq = -1
        self._peers_seen: tuple[int, frozenset[str]] = (-1, frozenset())
        self._is_broken = False

    @property
    def unaccounted(self) -> int:
        """How many firings are overdue now, as far as this worker audits."""
        return sum(len(item.overdue) for item in list(self._watched.values()))

    def wake(self) -> None:
        """Make the loop look whether it is to stop."""
        self._wake.set()

    def run(self, stop: threading.Event) -> None:
        """Come round until `stop` is set; whoever sets it also calls `wake`."""
        wait_s = SETTLE_S
        until = self._clock.monotonic() + wait_s
        while not stop.is_set():
            self._clock.wait(self._wake, min(wait_s, _LONGEST_WAIT_S))
            self._wake.clear()
            wait_s = until - self._clock.monotonic()
            if wait_s > 0 or stop.is_set():
                continue
            try:
                wait_s = self.step()
                self._is_broken = False
            except BrokerError as error:
                wait_s = self._tell_broken(error.message)
            except Exception as error:  # noqa: BLE001  without its audit a lost firing would never be told of
                wait_s = self._tell_broken(f"{type(error).__name__}: {error}")
            until = self._clock.monotonic() + wait_s

    def step(self) -> float:
        """One pass over what has become due to be looked at; how many seconds may go by until the next."""
        self._follow()
        now = self._time.now_ms() // 1000
        due = self._pop_due(now)
        try:
            doubtful = [(item, it) for item, it in self._accounts(due, now) if not self._is_in_order(item, it, now)]
            for item, account in doubtful[:_MOST_EXAMINED]:
                self._examine(item, account, now)
        except BaseException:
            self._plan_all(due, now + 1)
            raise
        self._plan_all(due, now, late={item.name for item, _ in doubtful[_MOST_EXAMINED:]})
        first = self._heap[0][0] if self._heap else now + _RARELY_S
        return max(0.05, min(_LONGEST_WAIT_S, first - now))

    def _accounts(self, due: list[_Watched], now: int) -> list[tuple[_Watched, Account | None]]:
        """What the broker has of each. What relayctl did not write is told, taken out of `due` and looked at later."""
        found = list(zip(due, self._closings.accounts([item.name for item in due]), strict=True))
        refusals = {item.name: it for item, it in found if isinstance(it, BrokerRefused)}
        if refusals:
            self._unreadable.tell(refusals)
            for item in due:
                if item.name in refusals:
                    # What is known of it may be true no more by then.
                    item.timeline = None
                    self._plan(item, now + _AGAIN_S)
            due[:] = [item for item in due if item.name not in refusals]
        return [(item, it) for item, it in found if not isinstance(it, BrokerRefused)]

    # What is watched

    def _follow(self) -> None:
        """Watch the schedules of the apps that are this worker's to audit, what is left of removed ones, no others."""
        apps = self._own_apps()
        seq, peers = self._definitions.seq(), (self._peers.seq, self._peers.publishers)
        if apps == self._apps and seq == self._seq and peers == self._peers_seen:
            return
        removed = frozenset(name for name in self._definitions.removed_names() if self._peers.audits_removed(name[0]))
        changed = None
        if apps == self._apps and 0 <= self._seq < seq:
            changed = self._definitions.changes_since(self._seq)
        if changed is None:
            changed = list(self._definitions.all_names())
        for name in [name for name in self._watched if name[0] not in apps and name not in removed]:
            self._watched.pop(name).stamp += 1
        now = self._time.now_ms() // 1000
        for name in [*(name for name in changed if name[0] in apps), *(removed - self._watched.keys())]:
            self._plan(self._watched.setdefault(name, _Watched(name=name)), now)
        self._apps, self._seq, self._peers_seen = apps, seq, peers

    def _own_apps(self) -> frozenset[str]:
        """The apps that are this worker's to audit; ranking them all takes a while, so only after a change."""
        snapshot = self._snapshot()
        ranked = (snapshot.seq, self._peers.seq)
        if ranked != self._ranked:
            self._own = frozenset(app for app in snapshot.live if self._peers.audits(app))
            self._ranked = ranked
        return self._own

    def _pop_due(self, now: int) -> list[_Watched]:
        found: list[_Watched] = []
        while self._heap and self._heap[0][0] <= now and len(found) < _MOST_LOOKS:
            _, _, item, stamp = heapq.heappop(self._heap)
            if stamp == item.stamp:
                found.append(item)
        return found

    def _plan(self, item: _Watched, at: int) -> None:
        item.stamp += 1
        heapq.heappush(self._heap, (at, next(self._order), item, item.stamp))

    def _plan_all(self, items: Iterable[_Watched], now: int, late: set[Name] | None = None) -> None:
        for item in items:
            if self._watched.get(item.name) is item:
                self._plan(item, now if late and item.name in late else self._next_look(item, now))

    def _next_look(self, item: _Watched, now: int) -> int:
        if item.overdue:
            return now + _AGAIN_S
        if item.timeline is None:
            return now + _SOON_S
        following = item.timeline.next_after(item.mark)
        at = now + _RARELY_S if following is None else following[0] + OVERDUE_AFTER_S + self._spread(item.name) + 1
        if item.oldest is not None:
            at = min(at, item.oldest + KEPT_FOR_S)
        return max(at, now + _SOON_S)

    def _spread(self, name: Name) -> int:
        """How much later than its instant a firing may be due, in seconds."""
        live = self._snapshot().live.get(name[0])
        schedule = None if live is None else live.app.schedule(name[1])
        return 0 if schedule is None else -(-schedule.jitter // _SECOND)

    # What is compared

    def _is_in_order(self, item: _Watched, account: Account | None, now: int) -> bool:
        """Whether the two numbers agree; if so the mark moves. A schedule that is gone is watched no more."""
        if account is None:
            self._let_go(item, item.gen)
            return True
        if item.timeline is None or account.gen != item.gen or account.floor != item.floor:
            self._reload(item, account)
            return False
        until = self._until(item, account, now)
        latest = item.timeline.latest_between(item.mark, until)
        is_kept = account.fields <= KEPT_FIRINGS and (item.oldest is None or now - item.oldest < KEPT_FOR_S)
        highest = item.mark if account.highest_published is None else max(item.mark, account.highest_published)
        expected = item.fields + item.timeline.count(item.mark, highest)
        if account.fields < expected:
            # Something is missing, and it need not be among the newest: a fail-over may have lost it.
            self._reload(item, account)
            return False
        if item.overdue or account.fields > expected or not is_kept or (latest is not None and highest < latest[0]):
            return False
        item.mark, item.fields = highest, account.fields
        return True

    def _reload(self, item: _Watched, account: Account) -> None:
        generations = self._definitions.generations(*item.name)
        if not generations:
            self._let_go(item, item.gen)
            return
        timeline = Timeline(generations)
        begin = -(-timeline.generations[0].from_ms // 1000) - 1
        item.gen, item.floor, item.fields = account.gen, account.floor, -1
        item.mark = begin if account.floor is None else max(begin, account.floor)
        item.timeline = timeline.since(item.mark)

    def _until(self, item: _Watched, account: Account, now: int) -> int:
        until = now - OVERDUE_AFTER_S - self._spread(item.name)
        if account.paused_at is None or _is_removed(item.timeline):
            return until
        # What a pause covers is closed by the end of the pause.
        return min(until, account.paused_at - 1)

    def _examine(self, item: _Watched, seen: Account | None, now: int) -> None:
        """Read the whole published set: close what is lost, tell what is overdue, drop what is done with."""
        account, fields = self._closings.recorded(*item.name)
        timeline = item.timeline
        if account is None or seen is None or timeline is None or account.gen != item.gen:
            # Changed since a moment ago: the next look starts over.
            item.timeline = None
            return
        if account.paused_at is not None and _is_removed(timeline):
            self._close_paused(item.name, timeline, account)
            account, fields = self._closings.recorded(*item.name)
            if account is None:
                return
        recorded, until = Recorded.of(fields), self._until(item, account, now)
        found = examine(timeline, recorded, after=item.mark, until=until, now=now)
        if found.lost:
            self._close(item.name, timeline, found)
            account, fields = self._closings.recorded(*item.name)
            if account is None:
                return
            recorded = Recorded.of(fields)
        self._tell_overdue(item, found.overdue)
        recorded = self._release(item, account, recorded, found.settled_until, now)
        item.mark = found.settled_until
        instants = recorded.instants()
        item.fields = len(recorded.fields) - sum(1 for at in instants if at > item.mark)
        item.oldest = instants[0] if instants else None
        item.timeline = timeline.since(item.mark)
        if _is_removed(timeline) and item.timeline.next_after(item.mark) is None:
            self._let_go(item, account.gen)

    def _let_go(self, item: _Watched, gen: int) -> None:
        """Watch a schedule no more that is gone and owes nothing."""
        self._definitions.settle_removed(*item.name, gen)
        self._watched.pop(item.name, None)

    def _release(self, item: _Watched, account: Account, recorded: Recorded, settled: int, now: int) -> Recorded:
        """Raise the floor where that is due; what is left of the published set."""
        item.floor = account.floor
        able = release(recorded, floor=account.floor, settled_until=settled, now=now)
        if able is None or not self._closings.raise_floor(*item.name, account, able.floor, able.dropped):
            return recorded
        item.floor = able.floor
        gone = set(able.dropped)
        return Recorded.of({name: value for name, value in recorded.fields.items() if name not in gone})

    def _close(self, name: Name, timeline: Timeline, found: Examination) -> None:
        """One range per reason: what lies between two lost firings is lost too, or has a field of its own."""
        wishes = []
        for part, reason, lost in _runs(timeline, found.lost):
            span = Span(first=lost[0], last=lost[-1], count=part.count(lost[0] - 1, lost[-1]))
            closing = Closing(span=span, verdict=Verdict.MISSED, reason=reason)
            wishes.append(Wish(app=name[0], schedule=name[1], closing=closing, narrow=partial(span_between, part)))
        for wish, closed in zip(wishes, self._closings.close(wishes, now_ms=self._time.now_ms()), strict=True):
            if isinstance(closed, BrokerRefused):
                self._unreadable.tell({name: closed})
            elif closed:
                self._emit(
                    Missed(
                        app=name[0],
                        schedule=name[1],
                        first_at=from_epoch(wish.closing.span.first),
                        last_at=from_epoch(wish.closing.span.last),
                        count=closed,
                        reason=wish.closing.reason,
                    )
                )

    def _close_paused(self, name: Name, timeline: Timeline, account: Account) -> None:
        """Nobody may ever resume a removed schedule, so what its pause covered is closed now; the pause stays."""
        assert account.paused_at is not None
        until = _FOREVER if account.paused_until is None else account.paused_until - 1
        wishes = []
        for part in timeline.judged():
            span = span_between(part, account.paused_at - 1, until)
            if span is not None:
                closing = Closing(span=span, verdict=Verdict.PAUSED, reason="paused")
                wishes.append(Wish(app=name[0], schedule=name[1], closing=closing, narrow=partial(span_between, part)))
        self._closings.close(wishes, now_ms=self._time.now_ms())

    def _tell_overdue(self, item: _Watched, overdue: Sequence[int]) -> None:
        news = [at for at in overdue if at not in item.overdue]
        item.overdue = frozenset(overdue)
        if news:
            self._emit(
                Overdue(
                    app=item.name[0],
                    schedule=item.name[1],
                    first_at=from_epoch(news[0]),
                    last_at=from_epoch(news[-1]),
                    count=len(news),
                )
            )

    def _tell_broken(self, reason: str) -> float:
        if not self._is_broken:
            self._is_broken = True
            self._emit(LoopFailed(loop="auditor", reason=reason))
        return SETTLE_S


def _runs(timeline: Timeline, lost: Sequence[tuple[int, str]]) -> Iterator[tuple[Timeline, str, list[int]]]:
    """The lost firings by reason, each run within neighbouring definitions that this worker can judge.

    A range over the firings of another evaluator would close what is not known here.
    """
    for part in timeline.judged():
        here = [(at, why) for at, why in lost if part.latest_between(at - 1, at) is not None]
        for reason in dict.fromkeys(why for _, why in here):
            yield part, reason, [at for at, why in here if why == reason]


def _is_removed(timeline: Timeline | None) -> bool:
    return timeline is not None and timeline.generations[-1].hash == TOMBSTONE
