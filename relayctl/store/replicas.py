"""Whether enough replicas hold what was written: WAIT, and the write it has to follow. It tries nothing again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from relayctl.errors import BrokerError
from relayctl.store.failure import translate
from relayctl.store.scripts import Command, Scripts

if TYPE_CHECKING:
    import redis

    from relayctl.store.keys import Keys

WITHIN_MS = 1000
"""How long replicas are waited for; well below the client's own patience."""
_BARRIER_LIFE_MS = 60_000


def confirmation(keys: Keys, acks: int) -> tuple[Command, ...]:
    """Commands that, behind others, wait until `acks` replicas hold everything written up to them.

    The server counts from a connection's last write, and what is asked about may have gone over another one, so there
    is a write here.
    """
    return ("SET", keys.barrier, 1, "PX", _BARRIER_LIFE_MS), ("WAIT", acks, WITHIN_MS)


def is_confirmed(answers: Sequence[object], acks: int) -> bool:
    """Whether the answers to a confirmation say yes: a server that refuses one has confirmed nothing."""
    written, held = answers
    return not isinstance(written, Exception) and isinstance(held, int) and held >= acks


class Replicas:
    """Asks over one client; `acks` replicas are wanted, 0 asks nobody."""

    def __init__(self, client: redis.Redis, keys: Keys, acks: int) -> None:
        self._keys = keys
        self._scripts = Scripts(client)
        self._acks = acks

    def confirm(self) -> bool | None:
        """Whether as many replicas as are wanted hold all that was written up to now; None where none are wanted.

        A broker that fails meanwhile has confirmed nothing, and what was written stays written.
        """
        if not self._acks:
            return None
        try:
            with translate():
                answers = self._scripts.send(self._keys.barrier, confirmation(self._keys, self._acks))
        except BrokerError:
            return False
        return is_confirmed(answers, self._acks)
