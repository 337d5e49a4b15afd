"""Ends what nobody will ever look for: due runs of removed schedules whose app no live worker has.

What was never admitted ends as obsolete; what was admitted fails that attempt, since its handler is gone. Work of an
app that is merely absent (no worker has it now) is left waiting.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from relayctl.core.definition import TOMBSTONE
from relayctl.core.lifecycle import Claim
from relayctl.store.invocations import Attempt, Wanted

if TYPE_CHECKING:
    from relayctl.store.definitions import Definitions
    from relayctl.store.invocations import Invocations
    from relayctl.worker.peers import Peers

_MOST = 100


class Leftovers:
    """Used by the claimer's thread. Raises BrokerError."""

    def __init__(self, *, invocations: Invocations, definitions: Definitions, peers: Peers, worker: str) -> None:
        self._invocations = invocations
        self._definitions = definitions
        self._peers = peers
        self._worker = worker

    def end(self, now_ms: int, live: Collection[str], next_token: str, lease_ms: int) -> None:
        """End up to a hundred of each app; `next_token` is a claim token nobody has used."""
        apps = [app for app in self._invocations.ready_apps(now_ms) if app not in live and self._is_gone(app)]
        if not apps:
            return
        due = [
            item
            for item in self._invocations.due([(app, _MOST) for app in apps], now_ms)
            if item[2].schedule is not None
        ]
        names = {(app, str(slot.schedule)) for app, _, slot in due}
        found = self._definitions.look(names)
        known = found.heads
        # Of what cannot be read nobody knows that it is removed.
        readable = names - found.unreadable.keys()
        removed = {name for name in readable if name not in known or known[name].hash == TOMBSTONE}
        wanted = [
            Wanted(
                message=message,
                app=app,
                slot=slot,
                token=f"{next_token}.{number}",
                # Without a descriptor nothing can be admitted by this: it ends as obsolete, or was admitted before.
                descriptor="",
                revision="",
            )
            for number, (app, message, slot) in enumerate(due)
            if (app, slot.schedule) in removed
        ]
        if wanted:
            answers = self._invocations.claim(wanted, lease_ms=lease_ms)
            self._fail([answer for answer in answers if isinstance(answer, Claim)], now_ms)

    def _is_gone(self, app: str) -> bool:
        records = self._peers.records
        return bool(records) and not self._peers.has_app(app)

    def _fail(self, claims: list[Claim], now_ms: int) -> None:
        self._invocations.end(
            [
                (
                    claim,
                    Attempt(
                        outcome="failed",
                        reason=f"app {claim.app} is no longer deployed",
                        exit="",
                        started_ms=now_ms,
                        finished_ms=now_ms,
                        worker=self._worker,
                    ),
                )
                for claim in claims
            ]
        )
