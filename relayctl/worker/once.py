"""Whether a worker that is to run once is through, or what keeps it from ever being so.

It only asks the loops; how long trouble is waited out, and what then, is the process's to decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from relayctl.errors import BrokerError, FileFailure
from relayctl.worker.recovery import State

if TYPE_CHECKING:
    from relayctl.worker.worker import Worker


class Once:
    """Looks at one worker that is to end by itself. `trouble` is what the last look found, empty where all is well."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.trouble = ""

    def is_done(self) -> bool:
        """Whether nothing is due, and everything that was due has ended; a retry that is due later may be left."""
        try:
            self.trouble = self._find_trouble()
            return not self.trouble and self._is_through()
        except (BrokerError, FileFailure) as error:
            self.trouble = error.message
            return False

    def _is_through(self) -> bool:
        worker = self._worker
        due = worker.invocations.ready_apps(worker.time.now_ms())
        return (
            not worker.reconciler.unbuilt
            and worker.scheduler.is_idle()
            and worker.stream.is_all_routed()
            and not any(worker.is_for(app) for app in due)
            and worker.claimer.is_settled()
        )

    def _find_trouble(self) -> str:
        """What is tried again and again: as long as that lasts, a quiet loop has not done its work."""
        worker = self._worker
        if not worker.reconciler.is_abreast:
            return "the schedules are not registered"
        unbuilt = next((app for app in worker.environments.unbuilt if app.is_failing), None)
        if unbuilt is not None:
            return unbuilt.words
        recovery = worker.rescue.recovery
        if recovery.state is not State.RUNNING:
            return f"the scheduler is {recovery.state.value}: {recovery.reason}"
        failing = worker.scheduler.failing()
        if failing:
            return failing
        if worker.claimer.is_broken:
            return "the ends of runs cannot be recorded"
        return self._owed()

    def _owed(self) -> str:
        outbox = self._worker.rescue.outbox
        # No need to make a file in order to find nothing in it.
        rows = outbox.rows() if outbox.path.exists() else []
        # A row that cannot be read is never published; it would keep every later run from its end.
        owed = [row.intent for row in rows if row.intent is not None]
        if not owed:
            return ""
        more = f" (and {len(owed) - 1} more)" if len(owed) > 1 else ""
        return f"{owed[0].occurrence.id}{more} waits in the outbox: {owed[0].last_error or 'not published yet'}"
