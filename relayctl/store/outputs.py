"""The kept output of attempts: written while they run, read for people. Ends bring theirs along in `invocations`.

How it is bounded: all texts lie in one hash under the names of their claims, with the sum of their weights; one ranking
of these names by time says who is evicted first, one per schedule or event handler who goes beyond its share. So a
single step with keys that are known beforehand writes, counts and evicts, whoever the evicted belong to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relayctl.core.lifecycle import Claim, Slot
from relayctl.core.output import KeptOutput, OutputLimits, read_output
from relayctl.store.failure import translate
from relayctl.store.invocations import output_keys
from relayctl.store.scripts import Scripts

if TYPE_CHECKING:
    import redis

    from relayctl.store.keys import Keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where an invocation stands: `waiting`, `running`, `retrying` or `over`; the attempts begun, and who holds it."""

    state: str
    attempts: int = 0
    token: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state == "over"


class Outputs:
    """Operations over one client. They raise BrokerUnavailable or BrokerRefused."""

    def __init__(self, client: redis.Redis, keys: Keys, limits: OutputLimits | None = None) -> None:
        self._client = client
        self._keys = keys
        self._limits = limits or OutputLimits()
        self._scripts = Scripts(client)

    @property
    def are_kept(self) -> bool:
        """Whether anything is to be kept."""
        return self._limits.attempts > 0

    def keep(self, running: Sequence[tuple[Claim, KeptOutput]], now_ms: int | None = None) -> None:
        """Write what running attempts have printed, in one round trip; of a claim that does not stand nothing is.

        One that the broker refuses does not keep the others from it, and is no error: it is written again.
        """
        runs = [
            (
                (
                    self._keys.invocations(claim.message),
                    *output_keys(self._keys, claim.app, claim.slot, claim.descriptor.handler),
                ),
                (
                    *(claim.app, claim.slot.text, claim.token, claim.attempt, kept.name, kept.to_json()),
                    *(self._limits.attempts, self._limits.total_bytes, self._scripts.instant(now_ms)),
                ),
            )
            for claim, kept in running
        ]
        with translate():
            self._scripts.run_many("output", runs)

    def of_schedule(self, app: str, schedule: str) -> list[KeptOutput]:
        """What is kept of a schedule's attempts, manual runs included, in the order in which they began."""
        return self._read(self._keys.output_of_schedule(app, schedule))

    def of_handler(self, app: str, handler: str) -> list[KeptOutput]:
        """The same of the event runs of a handler."""
        return self._read(self._keys.output_of_handler(app, handler))

    def has_handler(self, app: str, handler: str) -> bool:
        """Whether anything is kept of the event runs of this handler."""
        with translate():
            return bool(self._client.exists(self._keys.output_of_handler(app, handler)))

    def of_run(self, app: str, slot: Slot, message: str) -> list[KeptOutput]:
        """What is kept of the attempts of one run, in the order in which they began."""
        owner = output_keys(self._keys, app, slot, slot.text)[2]
        return self._read(owner, f"{app}|{message}|{slot.text}|")

    def standing(self, app: str, slot: Slot, message: str) -> Standing:
        """Where a run stands. One that has left no trace is over."""
        # A run goes from the stream into its hash: asked for in that order, it cannot slip by between the questions.
        with translate():
            is_there = bool(self._client.xrange(self._keys.events, message, message))
            text: Any = self._client.hget(self._keys.invocations(message), f"s:{app}|{slot.text}")
        if not text:
            return Standing(state="waiting" if is_there else "over")
        state, attempts, token = text.split("|", 2)
        if state == "claimed":
            return Standing(state="running", attempts=int(attempts), token=token)
        if state != "ready":
            return Standing(state="over", attempts=int(attempts))
        return Standing(state="retrying" if int(attempts) else "waiting", attempts=int(attempts))

    def underway(self, app: str, slots: Sequence[Slot], *, is_waiting_meant: bool) -> list[tuple[str, Slot]]:
        """The (message, slot) of runs of these slots that are claimed, or wait for it where those are meant too."""
        with translate():
            pipeline = self._client.pipeline(transaction=False)
            pipeline.zrange(self._keys.leases, 0, -1)
            if is_waiting_meant:
                pipeline.zrange(self._keys.ready_of(app), 0, -1)
            leases, *ready = pipeline.execute()
        claimed = [rest for owner, _, rest in (member.partition("|") for member in leases) if owner == app]
        members = [*claimed, *(member for members in ready for member in members)]
        found = [(message, Slot(slot)) for message, _, slot in (each.partition("|") for each in members)]
        return [each for each in found if each[1] in slots]

    def oldest_ms(self) -> int | None:
        """When the oldest output of all that is kept was written; None where there is none."""
        with translate():
            first: Any = self._client.zrange(self._keys.output_times, 0, 0, withscores=True)
        return int(first[0][1]) if first else None

    def _read(self, owner: str, prefix: str = "") -> list[KeptOutput]:
        with translate():
            names: Any = self._client.zrange(owner, 0, -1)
        found = self._texts([name for name in names if name.startswith(prefix)])
        lost = [kept.name for kept in found if kept.is_running and not self._is_held(kept)]
        # Those may have ended between the two looks; only what still has no end by now will never have one.
        ended = {kept.name: kept.as_lost() if kept.is_running else kept for kept in self._texts(lost)}
        return sorted((ended.get(kept.name, kept) for kept in found), key=lambda kept: (kept.started_ms, kept.attempt))

    def _texts(self, names: Sequence[str]) -> list[KeptOutput]:
        if not names:
            return []
        with translate():
            texts: Any = self._client.hmget(self._keys.output_texts, list(names))
        read = (read_output(text) for text in texts if text is not None)
        return [kept for kept in read if kept is not None]

    def _is_held(self, kept: KeptOutput) -> bool:
        return self.standing(kept.app, Slot(kept.slot), kept.message).token == kept.token
