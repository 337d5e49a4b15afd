"""What keeps a failed publication from being lost: this process's rows in the outbox, and the scheduler's state.

Used by the tick loop alone; `state` may be read from anywhere. A publication that succeeds at once touches no file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING

from relayctl.core.facts import Emit, ReplicasBehind, SchedulerChanged
from relayctl.core.intent import Intent
from relayctl.core.occurrence import Occurrence
from relayctl.errors import BrokerError, FileFailure, ReplyLost

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.host.outbox import Outbox

RETRY_S = (0.1, 0.5, 2.0, 5.0)
"""Waits between the attempts of the tick loop; after the last one the retrier goes on."""
ATTEMPTS = len(RETRY_S) + 1
LEASE = timedelta(seconds=20)
"""How long the tick loop holds a row after each attempt; longer than all that may lie between two of them."""
_GIVE_UP_S = sum(RETRY_S)


class State(Enum):
    """Whether and why not the scheduler fires."""

    RUNNING = "running"
    OFFLINE = "offline"  # the broker does not answer; the gap belongs to catch-up
    DEGRADED = "degraded"  # the outbox cannot be written, so what fails could not be recovered
    UNAVAILABLE = "unavailable"  # the outbox could not be opened at start


class Link:
    """Whether the broker answers the tick loop. It is lost after five failures, or after as long as those take."""

    def __init__(self) -> None:
        self.failures = 0
        self._since: float | None = None

    def failed(self, asked_at: float, now: float, *, is_beat: bool) -> bool:
        """One more call without an answer; whether the link is lost. Publications are counted by intent, elsewhere."""
        if self._since is None:
            self._since = asked_at
        self.failures += is_beat
        return self.failures >= ATTEMPTS or now - self._since >= _GIVE_UP_S

    def answered(self) -> None:
        """The broker has answered."""
        self.failures = 0
        self._since = None


class Recovery:
    """The tick loop's side of the outbox."""

    def __init__(
        self,
        *,
        outbox: Outbox,
        token: str,
        clock: Clock,
        emit: Emit,
        acks: int = 0,
        on_handed: Callable[[], None] = lambda: None,
    ) -> None:
        """`acks` replicas must hold a publication before its row goes; `on_handed` hears that the retrier has work."""
        self._outbox = outbox
        self._token = token
        self._holder = f"{token}-tick"
        self._clock = clock
        self._emit = emit
        self._on_handed = on_handed
        self._kept: dict[str, Intent] = {}
        self._unsaved: set[str] = set()
        self._is_behind = False
        self.acks = acks
        self.state = State.RUNNING
        self.reason = ""
        """Why it is in that state, where it does not run."""

    @property
    def needs_answers(self) -> bool:
        """Whether what succeeds matters here: there are rows that it may settle."""
        return bool(self._kept or self.acks)

    def enter(self, state: State, reason: str) -> None:
        """Change the state and tell it."""
        if state is not self.state:
            self.state, self.reason = state, reason
            self._emit(SchedulerChanged(state=state.value, reason=reason))

    def secure(self, occurrences: Sequence[Occurrence]) -> bool:
        """Keep what is about to be published, where replicas must acknowledge it; False if that cannot be kept."""
        if not self.acks or not occurrences:
            return True
        fresh = [self._intent(item) for item in occurrences if item.id not in self._kept]
        self._kept |= {item.occurrence.id: item for item in fresh}
        return self._put(fresh)

    def failed(self, failures: Sequence[tuple[Occurrence, BrokerError]]) -> None:
        """Keep what was tried and failed, before it is tried again."""
        if not failures:
            return
        intents = [
            self._kept.get(item.id, self._intent(item)).failed(error.message, is_ambiguous=isinstance(error, ReplyLost))
            for item, error in failures
        ]
        self._kept |= {intent.occurrence.id: intent for intent in intents}
        self._put(intents)

    def settled(self, ids: Collection[str], *, unsafe: Collection[str] = ()) -> None:
        """These have their answer and need no row any more; of the `unsafe` too few replicas know."""
        if self.acks:
            self._tell_replicas(bool(unsafe))
        mine = [each for each in ids if each in self._kept]
        if mine:
            try:
                self._outbox.resolve([each for each in mine if each not in self._unsaved], self._holder)
            except FileFailure:
                # The rows stay; the retrier asks again and hears the same.
                pass
            self._forget(mine)
        self._release([each for each in unsafe if each in self._kept])

    def hand_over(self) -> None:
        """Leave every row to the retrier, of this process or of the next one."""
        self._release([each for each in self._kept if each not in self._unsaved])

    def mend(self) -> bool:
        """Try whether the outbox can be written again, and keep what could not be kept; whether that worked."""
        try:
            self._outbox.probe()
            self._outbox.put([self._kept[each] for each in self._unsaved], holder=self._holder, lease=LEASE)
        except FileFailure:
            return False
        self._unsaved.clear()
        return True

    def _intent(self, occurrence: Occurrence) -> Intent:
        return Intent(occurrence=occurrence, token=self._token, first_failed_at=self._clock.now())

    def _put(self, intents: Sequence[Intent]) -> bool:
        try:
            self._outbox.put(intents, holder=self._holder, lease=LEASE)
        except FileFailure as error:
            self._unsaved |= {intent.occurrence.id for intent in intents}
            self.enter(State.DEGRADED, error.message)
            return False
        self._unsaved -= {intent.occurrence.id for intent in intents}
        return True

    def _release(self, ids: Collection[str]) -> None:
        if not ids:
            return
        try:
            self._outbox.release(ids, self._holder)
        except FileFailure:
            # The lease ends by itself.
            pass
        self._forget(ids)
        self._on_handed()

    def _forget(self, ids: Collection[str]) -> None:
        for each in ids:
            self._kept.pop(each, None)
            self._unsaved.discard(each)

    def _tell_replicas(self, is_behind: bool) -> None:
        if is_behind and not self._is_behind:
            self._emit(ReplicasBehind(wanted=self.acks))
        self._is_behind = is_behind
