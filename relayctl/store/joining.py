"""Registrations that are queued in a transaction of somebody else's: what they rest on, and what came of them.

It decides nothing and retries nothing. The pipeline is its caller's, with whatever way to decode replies it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redis import exceptions as library

from relayctl.errors import BrokerRefused, BrokerUnavailable, RegistryChanged, UsageError
from relayctl.store.definitions import (
    HEAD_FIELDS,
    Head,
    Name,
    Proposal,
    Verdict,
    read_head,
    read_registered,
    register_run,
)
from relayctl.store.failure import LIBRARY_ERRORS, alien_record, to_broker_error, translate
from relayctl.store.fleet import LIVE_MS, Holdings, WorkerRecord
from relayctl.store.scripts import digest, source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from relayctl.store.keys import Keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a registration rests on. `holders` is live worker to the definitions it holds (app/schedule to hash)."""

    mode: str
    heads: Mapping[Name, Head]
    holders: Mapping[str, Mapping[str, str]]
    newer: tuple[str, ...]
    """Live workers of a newer relayctl: what they hold is not known."""


class Joint:
    """The registry on one pipeline: `look`, then `queue`, then `commit` or the caller's own `execute`.

    It raises BrokerUnavailable or BrokerRefused besides what it says.
    """

    def __init__(self, pipeline: Any, keys: Keys) -> None:
        self._pipeline = pipeline
        self._keys = keys

    def look(self, names: Sequence[Name]) -> Ground:
        """Watch all that the registration of these rests on, and read it; UsageError where commands are queued."""
        self._watch(names)
        keys = self._keys
        looked_at = [
            *(keys.mode, keys.definitions_seq, keys.definitions_log, keys.definitions, keys.definitions_gone),
            keys.workers,
            *(key for name in names for key in (keys.schedule(*name), keys.published(*name))),
        ]
        alien, mode, live, rows = self._ask(
            "EVAL", source("foresee"), len(looked_at), *looked_at, LIVE_MS, *HEAD_FIELDS
        )
        if alien:
            raise alien_record("it has another type or other values", alien)
        heads: dict[Name, Head] = {}
        for name, fields in zip(names, rows, strict=True):
            head = read_head(keys, *name, fields)
            if isinstance(head, BrokerRefused):
                raise head
            if head is not None:
                heads[name] = head
        holders, newer = self._holders(live)
        return Ground(mode=mode, heads=heads, holders=holders, newer=newer)

    def _watch(self, names: Sequence[Name]) -> None:
        if len(self._pipeline):
            raise UsageError("the pipeline has commands queued already", help="register first, then queue your own")
        keys = self._keys
        try:
            with translate():
                self._pipeline.watch(keys.mode, keys.pins, *(keys.schedule(*name) for name in names))
        except BrokerRefused as error:
            if isinstance(error.__cause__, library.ResponseError):
                raise
            # The library's own word: no server was asked.
            raise UsageError(
                f"the pipeline cannot watch keys now: {error.__cause__}",
                help="take one with transaction=True, and register before multi(), which registering calls itself",
            ) from error

    def _holders(self, live: Sequence[str]) -> tuple[dict[str, Mapping[str, str]], tuple[str, ...]]:
        if not live:
            return {}, ()
        records = self._ask("MGET", *(self._keys.worker(worker) for worker in live))
        holdings = self._ask("MGET", *(self._keys.holdings(worker) for worker in live))
        holders: dict[str, Mapping[str, str]] = {}
        newer = []
        for worker, record, held in zip(live, records, holdings, strict=True):
            if record and WorkerRecord.from_json(record) is None:
                newer.append(worker)
            elif held:
                holders[worker] = Holdings.from_json(held).schedules
        return holders, tuple(newer)

    def _ask(self, *command: Any) -> Any:
        with translate():
            return _text(self._pipeline.execute_command(*command))

    def queue(self, proposals: Sequence[Proposal]) -> None:
        """Begin the transaction, and queue these as its first commands."""
        with translate():
            self._pipeline.multi()
            for number, proposal in enumerate(proposals):
                keys, args = register_run(self._keys, proposal, "")
                # The text loads the script for those behind it: inside a transaction nobody can take it out between.
                script = ("EVALSHA", digest("register")) if number else ("EVAL", source("register"))
                self._pipeline.execute_command(*script, len(keys), *keys, *args)

    def commit(self) -> list[Any]:
        """Run the transaction; the replies to all of its commands, where errors of the library may be among them.

        RegistryChanged where something that is watched has changed, and nothing was done.
        """
        try:
            return list(self._pipeline.execute(raise_on_error=False))
        except library.WatchError as error:
            # The library also says so where a connection failed on the way to the answer.
            if isinstance(error.__context__, LIBRARY_ERRORS):
                raise _unknown(error.__context__) from error
            raise RegistryChanged(
                "what the registration rests on was changed meanwhile, and nothing was done",
                help="begin again: it looks at what there is now",
            ) from error
        except LIBRARY_ERRORS as error:
            if isinstance(error, (library.ConnectionError, library.TimeoutError)):
                raise _unknown(error) from error
            raise to_broker_error(error) from error

    def answers(self, proposals: Sequence[Proposal], replies: Sequence[Any]) -> dict[Name, tuple[Verdict, Head | None]]:
        """What the registry made of the proposals that were queued, from the replies of the transaction."""
        found: dict[Name, tuple[Verdict, Head | None]] = {}
        for proposal, reply in zip(proposals, replies, strict=False):
            answer = read_registered(self._keys, proposal, _text(reply))
            if isinstance(answer, BrokerRefused):
                raise answer
            found[proposal.app, proposal.schedule] = answer
        return found


def _unknown(error: Exception) -> BrokerUnavailable:
    plain = to_broker_error(error)
    return BrokerUnavailable(
        f"{plain.message}; whether the transaction was done is not known",
        help="look at what it writes, or do it again: a registration that stands is `unchanged` then",
    )


def _text(reply: Any) -> Any:
    """A reply as text, whatever the caller's client makes of bytes."""
    if isinstance(reply, list):
        return [_text(item) for item in reply]
    return reply.decode("utf-8", "surrogateescape") if isinstance(reply, bytes) else reply
