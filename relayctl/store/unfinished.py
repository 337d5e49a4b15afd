"""The runs of a schedule or handler that have not ended: claimed, waiting for their next attempt or for a place.

Looks and changes nothing. What is still unrouted in the stream is not among them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from relayctl.core.lifecycle import Descriptor, Slot
from relayctl.core.occurrence import from_epoch, instant_from_text
from relayctl.core.record import message_order
from relayctl.core.underway import Underway
from relayctl.store.failure import translate
from relayctl.store.outputs import Outputs

if TYPE_CHECKING:
    import redis

    from relayctl.core.output import KeptOutput
    from relayctl.store.keys import Keys

_MOST_READ = 10_000
"""Of an app's ready set, by due time: a backlog is counted elsewhere, and need not be listed whole."""
_RANK = {"running": 0, "retrying": 1, "waiting": 2}


class Unfinished:
    """Over one client. Raises BrokerUnavailable or BrokerRefused."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._outputs = Outputs(client, keys)

    def of(self, app: str, slots: Sequence[Slot], *, limit: int) -> list[Underway]:
        """At most `limit` runs of these slots, those that run before those that wait; the newest first.

        What a newer relayctl wrote is left out.
        """
        due = self._members(app, slots)
        found = sorted(self._read(app, due), key=lambda run: message_order(run.message), reverse=True)
        kept = sorted(found, key=lambda run: _RANK[run.state])[:limit]
        return [self._with_attempt(app, run, slots) for run in found if run in kept]

    def _members(self, app: str, slots: Sequence[Slot]) -> dict[tuple[str, Slot], datetime | None]:
        """The runs that are claimed, held back by another one, or due some time, with that time."""
        with translate():
            pipeline = self._client.pipeline(transaction=False)
            pipeline.zrange(self._keys.leases, 0, -1)
            pipeline.zrange(self._keys.ready_of(app), 0, _MOST_READ - 1, withscores=True)
            for schedule in {slot.schedule for slot in slots if slot.schedule}:
                pipeline.hget(self._keys.schedule(app, schedule), "waiter")
            leases, ready, *waiters = pipeline.execute()
        claimed = (rest for owner, _, rest in (member.partition("|") for member in leases) if owner == app)
        members: list[tuple[str, datetime | None]] = [(rest, None) for rest in (*claimed, *filter(None, waiters))]
        members += [(member, from_epoch(0) + timedelta(milliseconds=int(due))) for member, due in ready]
        return {run: due for run, due in _split(members) if run[1] in slots}

    def _read(self, app: str, due: dict[tuple[str, Slot], datetime | None]) -> Iterator[Underway]:
        if not due:
            return
        with translate():
            pipeline = self._client.pipeline(transaction=False)
            for message, slot in due:
                name = f"{app}|{slot.text}"
                pipeline.hmget(self._keys.invocations(message), f"s:{name}", f"d:{name}", "env")
            replies: list[Any] = pipeline.execute()
        for ((message, slot), at), (state, pinned, envelope) in zip(due.items(), replies, strict=True):
            run = _underway(message, slot, at, state, pinned, envelope)
            if run is not None:
                yield run

    def _with_attempt(self, app: str, run: Underway, slots: Sequence[Slot]) -> Underway:
        """The run with what is kept of its last attempt."""
        if not run.attempts:
            return run
        [slot] = [slot for slot in slots if slot.kind.value == run.kind]
        kept = [each for each in self._outputs.of_run(app, slot, run.message) if each.attempt == run.attempts]
        return _told(run, kept[-1]) if kept else run


def _split(members: Iterable[tuple[str, datetime | None]]) -> Iterator[tuple[tuple[str, Slot], datetime | None]]:
    for member, due in members:
        message, _, slot = member.partition("|")
        yield (message, Slot(slot)), due


def _underway(
    message: str, slot: Slot, due: datetime | None, state: str | None, pinned: str | None, envelope: str | None
) -> Underway | None:
    """The run as its record has it; None where that has ended meanwhile or is a newer relayctl's."""
    word, _, rest = (state or "").partition("|")
    if word not in {"claimed", "ready"}:
        return None
    attempts = int(rest.partition("|")[0])
    try:
        contract = Descriptor.from_json(pinned) if pinned else None
    except ValueError:
        return None
    at = "" if slot.schedule is None else json.loads(envelope or "{}").get("scheduled_at", "")
    return Underway(
        state="running" if word == "claimed" else "retrying" if attempts else "waiting",
        kind=slot.kind.value,
        message=message,
        handler=contract.handler if contract else "" if slot.schedule else slot.text,
        scheduled_at=instant_from_text(at),
        attempts=attempts,
        attempts_allowed=contract.attempts if contract else 0,
        due_at=None if word == "claimed" else due,
    )


def _told(run: Underway, kept: KeptOutput) -> Underway:
    has_ended = run.state != "running"
    return replace(
        run,
        started_at=kept.started_at,
        finished_at=kept.finished_at if has_ended else None,
        reason=kept.reason if has_ended else "",
        worker=kept.worker,
    )
