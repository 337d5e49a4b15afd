"""Running attempts whose record a flushed or replaced broker has lost: written anew, so that their end is recorded.

Only attempts come back here; what a schedule is and how far it has run is told by others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from relayctl.store.failure import translate
from relayctl.store.scripts import Scripts

if TYPE_CHECKING:
    import redis

    from relayctl.core.lifecycle import Claim
    from relayctl.store.keys import Keys


class Readmission:
    """For one worker, over one client. Raises BrokerUnavailable or BrokerRefused."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._scripts = Scripts(client)
        self._epoch = ""

    def look(self) -> str:
        """The broker's epoch now; empty where nobody has marked it yet."""
        with translate():
            epoch: Any = self._client.get(self._keys.epoch)
        return epoch or ""

    def settle(self, epoch: str) -> None:
        """Of everything that ran under earlier epochs it is known what became of it."""
        self._epoch = epoch or self._epoch

    def readmit(self, claims: Sequence[Claim], *, lease_ms: int, now_ms: int | None = None) -> list[Claim]:
        """Those whose record stands now; the others a peer has taken over or ended, or this worker.

        A record that is missing under the same epoch was not lost: it ended so long ago that it is forgotten.
        """
        if not claims or not self._epoch:
            return []
        keys = [self._keys.epoch, self._keys.leases, *(self._keys.invocations(claim.message) for claim in claims)]
        args: list[str | int] = [self._epoch, lease_ms, self._scripts.instant(now_ms)]
        for claim in claims:
            args += [claim.app, claim.message, claim.slot.text, claim.token, claim.attempt]
            args += [claim.descriptor.to_json(), claim.slot.kind.value, claim.event]
        with translate():
            answers: list[int] = self._scripts.run("readmit", keys, args)
        return [claim for claim, stands in zip(claims, answers, strict=True) if stands]
