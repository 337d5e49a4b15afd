"""Takes demands for one run of a handler: finds what is meant in this worker's apps, and hands it to the executor.

Such a run is none of the stream's: nothing is published, claimed or recorded. Payloads are never logged.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from relayctl.core.facts import ControlUsed, Emit, InvokeEnded
from relayctl.core.occurrence import from_epoch
from relayctl.core.trial import Trial, is_event, trial_names, trial_of
from relayctl.errors import RequestRejected
from relayctl.host.requests import Result, asker
from relayctl.runners.invocation import Ended, Outcome
from relayctl.runners.trialrun import run_of_trial, trial_document

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.host.requests import Document
    from relayctl.worker.guests import Guest
    from relayctl.worker.worker import Worker

_MOST_NAMED = 200
_ESCAPED = 3
_FRAME_BYTES = 4096


class Invoker:
    """The door for `invoke` of one worker."""

    def __init__(self, worker: Worker, *, cap: timedelta, max_bytes: int, clock: Clock, emit: Emit) -> None:
        """`cap` is the longest timeout that this worker grants, `max_bytes` the largest event."""
        self._worker = worker
        self._cap = cap
        self._max_bytes = max_bytes
        self._clock = clock
        self._emit = emit
        self._numbers = itertools.count(1)

    @property
    def largest_request(self) -> int:
        """The most bytes that a request with the largest event takes: a byte of it is up to three in the frame."""
        return _ESCAPED * self._max_bytes + _FRAME_BYTES

    def submit(self, request: Document) -> Guest:
        """Accept the run of `name` in `app`, with `event` or what its schedule gives; else RequestRejected."""
        trial = self._trial(request)
        message = f"invoke-{self._worker.token}-{next(self._numbers)}"
        run = run_of_trial(trial, message, self._clock.now(), self._cap)
        guest = self._worker.executor.guests.submit(run, self._reporter(trial, message))
        self._emit(ControlUsed(action="invoke", target=run.label, by=asker(request)))
        return guest

    def _trial(self, request: Document) -> Trial:
        app, name, event = request.get("app"), request.get("name"), request.get("event")
        if not isinstance(app, str) or not isinstance(name, str):
            raise RequestRejected("malformed")
        if event is not None:
            self._check(event)
        live = self._worker.reconciler.snapshot.live
        if app not in live:
            raise RequestRejected("no-app", known=sorted(live)[:_MOST_NAMED])
        if self._worker.executor.is_foreign(app):
            raise RequestRejected("unable")
        now = from_epoch(self._worker.time.now_ms() // 1000)
        trial = trial_of(live[app].app, name, event, now)
        if trial is None:
            raise RequestRejected("no-handler", known=trial_names(live[app].app)[:_MOST_NAMED])
        return trial

    def _check(self, event: object) -> None:
        if not isinstance(event, str) or not is_event(event):
            raise RequestRejected("malformed")
        try:
            size = len(event.encode())
        except UnicodeEncodeError:
            raise RequestRejected("malformed") from None
        if size > self._max_bytes:
            raise RequestRejected("too-large")

    def _reporter(self, trial: Trial, message: str) -> Callable[[Ended], Result]:
        def report(ended: Ended) -> Result:
            self._emit(
                InvokeEnded(
                    app=trial.app.name,
                    handler=trial.contract.handler,
                    message=message,
                    outcome=ended.outcome.value,
                    took=timedelta(seconds=ended.duration_s),
                    reason=ended.reason,
                )
            )
            return Result(
                is_ok=ended.outcome is Outcome.SUCCEEDED,
                document=trial_document(trial, ended),
                reason=ended.reason,
                duration_s=ended.duration_s,
            )

        return report
