"""Ends what no live worker has been able to run for a day, whoever of the fleet sees it.

Stranded is work of an app that no live worker has or can start, and a slot that every worker refused to admit: its
template lacks it, or a release binds the app to another revision. Since when is marked in the broker, so a restart
of any worker changes nothing; whoever can run it again wipes the mark by claiming, and the work simply runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from relayctl.core.facts import RunAbandoned
from relayctl.core.occurrence import from_epoch
from relayctl.errors import BrokerError
from relayctl.store.stranded import Stranded

if TYPE_CHECKING:
    from relayctl.core.facts import Emit
    from relayctl.core.lifecycle import Slot
    from relayctl.host.clock import Clock
    from relayctl.store.invocations import Invocations
    from relayctl.store.stranded import Strandings
    from relayctl.worker.peers import Peers

UNAVAILABLE_AFTER = timedelta(hours=24)
LOOK_S = 15.0
GRACE_S = 30.0
"""A fleet that starts is given so long to come up before what is marked since long ago is ended."""
_STILL_REFUSED_S = 60.0 + 2 * LOOK_S
"""A refusal counts for so long: of many, each is asked for once a minute."""
_MOST = 100
_STEP_MS = 60_000
"""By so much the broker's time and this machine's own may differ between two looks without a clock being corrected."""
_MS = timedelta(milliseconds=1)


class Lookout:
    """Used by the claimer's thread. Raises BrokerError."""

    def __init__(
        self,
        *,
        invocations: Invocations,
        strandings: Strandings,
        peers: Peers,
        clock: Clock,
        worker: str,
        emit: Emit,
    ) -> None:
        self._invocations = invocations
        self._strandings = strandings
        self._peers = peers
        self._clock = clock
        self._worker = worker
        self._emit = emit
        self._look_at = 0.0
        self._refused: dict[Stranded, float] = {}
        self._seen_since: dict[str, float] = {}
        self._marks: dict[str, int] = {}
        self._looked: tuple[float, int] | None = None

    def refused(self, app: str, message: str, slot: Slot) -> None:
        """This worker asked for it and was not admitted."""
        item = Stranded(app=app, message=message, slot=slot, is_of_slot=True)
        self._refused[item] = self._clock.monotonic()

    def look(self, now_ms: int) -> None:
        """Mark what is stranded, wipe what is not, end what has been for long; now and then."""
        now = self._clock.monotonic()
        # Before it has seen the fleet it knows of nobody who can run anything, nor of anybody who cannot.
        if now < self._look_at or not self._peers.records:
            return
        self._look_at = now + LOOK_S
        self._follow_clock(now, now_ms)
        self._refused = {item: at for item, at in self._refused.items() if now - at < _STILL_REFUSED_S}
        ready = self._invocations.ready_apps(now_ms)
        away = [app for app in ready if not self._peers.can_run(app)]
        due = self._invocations.due([(app, _MOST) for app in away], now_ms) if away else []
        stranded = [Stranded(app=app, message=message, slot=slot) for app, message, slot in due]
        stranded += [item for item in self._refused if item.app not in away and not self._peers.newer]
        self._wipe(ready, away)
        marks = {item.mark for item in stranded}
        self._seen_since = {mark: self._seen_since.get(mark, now) for mark in marks}
        ripe = {mark for mark, since in self._seen_since.items() if now - since >= GRACE_S}
        self._abandon([item for item in stranded if item.mark in ripe], UNAVAILABLE_AFTER // _MS, now_ms)
        self._abandon([item for item in stranded if item.mark not in ripe], None, now_ms)
        self._marks = self._strandings.marks()

    def _follow_clock(self, now: float, now_ms: int) -> None:
        """Where the broker's time went on otherwise than this machine's own, the marks go with it.

        A day that only a corrected clock has counted is no day of waiting; nor is one that a machine slept through.
        """
        if self._looked is not None:
            at, at_ms = self._looked
            step_ms = now_ms - at_ms - round((now - at) * 1000)
            if abs(step_ms) >= _STEP_MS:
                self._strandings.move(self._marks, step_ms)
        self._looked = (now, now_ms)

    def _wipe(self, ready: Iterable[str], away: Iterable[str]) -> None:
        """An app's mark goes when somebody has it again, a slot's by a claim; both when nothing of the app is due."""
        known, gone = set(ready), set(away)
        marks = self._strandings.marks()
        self._strandings.clear([
            mark for mark in marks
            if (app := mark.partition("|")[0]) not in known or (app == mark and app not in gone)
        ])  # fmt: skip

    def _abandon(self, items: list[Stranded], after_ms: int | None, now_ms: int) -> None:
        if not items:
            return
        # By the time whose course was followed: the broker's may have been corrected a moment ago.
        answers = self._strandings.abandon(items, by=self._worker, after_ms=after_ms, now_ms=now_ms)
        for item, answer in zip(items, answers, strict=True):
            if isinstance(answer, BrokerError) or answer[0] != "failed":
                continue
            self._refused.pop(item, None)
            self._emit(
                RunAbandoned(
                    app=item.app,
                    handler=item.slot.text,
                    message=item.message,
                    since_at=from_epoch(0) + answer[1] * _MS,
                )
            )
