"""Whether the tick loop may fire, and the way back after it could not: register, outbox, then catch-up and ticks.

It counts and decides; the heartbeat, the publications and the rows are others'.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from relayctl.core.due import LATENESS_S
from relayctl.errors import BrokerError, FileFailure
from relayctl.worker.recovery import ATTEMPTS, RETRY_S, Link, State

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.worker.recovery import Recovery

PROBE_S = 1.0
"""How often a broker that is away and an outbox that cannot be written are tried again."""
_ABREAST_WITHIN_S = 15.0
"""How long registering is waited for; a tree that cannot be read must not stop what is armed."""
_ABREAST_POLL_S = 0.1
_PEERS_S = 2.0
"""After a long outage catch-up closes firings, so what peers have in their outboxes goes first."""
_WAY_BACK = {
    State.RUNNING: "",
    State.OFFLINE: "the broker answers again",
    State.DEGRADED: "the outbox can be written again",
    State.UNAVAILABLE: "the outbox can be opened",
}


class Gate:
    """Used by the tick loop alone."""

    def __init__(
        self, *, recovery: Recovery, drain: Callable[[bool], int], is_abreast: Callable[[], bool], clock: Clock
    ) -> None:
        """`drain` works on one batch of the outbox and counts it, with True as the first of a recovery;
        `is_abreast` says that what is armed is registered with the present broker."""
        self._recovery = recovery
        self._drain = drain
        self._is_abreast = is_abreast
        self._clock = clock
        self._link = Link()
        self._epoch = ""
        self._is_open = False
        self._was_open = False
        self._is_first = True
        self._is_cut_off = False
        self._cut_off_at = 0.0
        self._peers_by = 0.0
        self._probe_at = 0.0
        self._abreast_by = clock.monotonic() + _ABREAST_WITHIN_S

    @property
    def is_open(self) -> bool:
        """Whether firing may go on, as last decided."""
        return self._is_open

    def beat_failed(self, asked_at: float, error: BrokerError) -> float:
        """A heartbeat that was asked at that moment had no answer; the seconds until it should be tried again."""
        if self._link.failed(asked_at, self._clock.monotonic(), is_beat=True):
            self._cut_off(error)
        return PROBE_S if self._is_cut_off else RETRY_S[min(self._link.failures, len(RETRY_S)) - 1]

    def beat_answered(self, epoch: str) -> None:
        """The broker has answered a heartbeat."""
        self._link.answered()
        now = self._clock.monotonic()
        if self._is_cut_off:
            self._is_cut_off = False
            if now - self._cut_off_at > LATENESS_S:
                self._peers_by = now + _PEERS_S
            self._close()
        if self._epoch and epoch != self._epoch:
            # Nothing may go out before the new registry has heard what has run.
            self._close()
        self._epoch = epoch

    def publish_failed(self, attempts: int, asked_at: float, error: BrokerError) -> None:
        """An intent has failed that often, the last time asked at that moment."""
        if not error.is_retryable:
            return
        if self._link.failed(asked_at, self._clock.monotonic(), is_beat=False) or attempts >= ATTEMPTS:
            self._cut_off(error)

    def wait_s(self) -> float | None:
        """None where firing may go on, else the seconds until that should be asked again."""
        now = self._clock.monotonic()
        if self._recovery.state in {State.DEGRADED, State.UNAVAILABLE}:
            if now < self._probe_at:
                return self._probe_at - now
            if not self._recovery.mend():
                return self._wait_for_probe(now)
            self._close()
        if self._is_cut_off:
            return PROBE_S
        return None if self._is_open else self._open(now)

    def _open(self, now: float) -> float | None:
        if now < self._abreast_by and not self._is_abreast():
            return _ABREAST_POLL_S
        try:
            if self._drain(self._is_first):
                self._is_first = False
                return 0.0
        except FileFailure as error:
            self._recovery.enter(State.DEGRADED if self._was_open else State.UNAVAILABLE, error.message)
            return self._wait_for_probe(now)
        except BrokerError:
            return PROBE_S
        if now < self._peers_by:
            return self._peers_by - now
        self._is_open = self._was_open = True
        self._recovery.enter(State.RUNNING, _WAY_BACK[self._recovery.state])
        return None

    def _cut_off(self, error: BrokerError) -> None:
        if not self._is_cut_off:
            self._is_cut_off = True
            self._cut_off_at = self._clock.monotonic()
        self._close()
        if self._recovery.state is State.RUNNING:
            self._recovery.enter(State.OFFLINE, error.message)

    def _close(self) -> None:
        if self._is_open:
            self._abreast_by = self._clock.monotonic() + _ABREAST_WITHIN_S
        self._is_open, self._is_first = False, True
        self._recovery.hand_over()

    def _wait_for_probe(self, now: float) -> float:
        self._probe_at = now + PROBE_S
        return PROBE_S
