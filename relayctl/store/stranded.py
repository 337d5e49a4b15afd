"""Work that no live worker can run: since when, and its end after that has lasted for long.

Who can run what is the caller's to know; here are the marks in the broker, which outlive every worker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relayctl.core.lifecycle import Slot
from relayctl.errors import BrokerError
from relayctl.store.endrecords import surrendered_letter, surrendered_record
from relayctl.store.failure import translate
from relayctl.store.invocations import Invocations, answer_of, offered
from relayctl.store.keys import GROUP
from relayctl.store.scripts import Arguments, Scripts

if TYPE_CHECKING:
    import redis

    from relayctl.store.keys import Keys

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranded:
    """A due invocation that nobody can run: because of its app, or (`is_of_slot`) only of this slot of it."""

    app: str
    message: str
    slot: Slot
    is_of_slot: bool = False

    @property
    def mark(self) -> str:
        """What is marked in the broker: the app, or app|slot."""
        return f"{self.app}|{self.slot.text}" if self.is_of_slot else self.app


class Strandings:
    """Operations on what is stranded, over one client. They raise BrokerUnavailable or BrokerRefused."""

    def __init__(self, client: redis.Redis, keys: Keys, wants_verdicts: Callable[[], bool] = lambda: False) -> None:
        """`wants_verdicts` says whether a live worker has a rule for verdicts."""
        self._client = client
        self._keys = keys
        self._wants_verdicts = wants_verdicts
        self._scripts = Scripts(client)
        self._invocations = Invocations(client, keys)

    def abandon(
        self, items: Sequence[Stranded], *, by: str, after_ms: int | None, now_ms: int | None = None
    ) -> list[tuple[str, int] | BrokerError]:
        """End those that nobody could run for `after_ms`; None only marks since when.

        The answer of each is (failed | waits | gone | obsolete | newer, since when in milliseconds).
        """
        with translate():
            replies = self._scripts.run_many("abandon", [self._run(item, by, after_ms, now_ms) for item in items])
        return [answer_of(reply) for reply in replies]

    def marks(self) -> dict[str, int]:
        """What is marked, an app or app|slot, and since when in milliseconds."""
        with translate():
            marks: Any = self._client.hgetall(self._keys.stranded)
        return {mark: int(since) for mark, since in marks.items()}

    def move(self, seen: Mapping[str, int], by_ms: int) -> None:
        """Follow a clock that was corrected by so much. A mark that does not say any more what was seen stays."""
        args = [part for mark, since in seen.items() for part in (mark, since, since + by_ms)]
        if args:
            with translate():
                self._scripts.run("remark", [self._keys.stranded], args)

    def clear(self, marks: Sequence[str]) -> None:
        """Somebody can run these again, or nothing of theirs is due."""
        if marks:
            with translate():
                self._client.hdel(self._keys.stranded, *marks)

    def _run(self, item: Stranded, by: str, after_ms: int | None, now_ms: int | None) -> Arguments:
        app, message, slot = item.app, item.message, item.slot
        detail = f"no live worker could run it for {(after_ms or 0) // _HOUR_MS} h"
        buried = surrendered_letter(app, message, slot, "unavailable", detail)
        failure = (*surrendered_record(message, slot, "unavailable", by), *offered(self._wants_verdicts))
        limit: int | str = "" if after_ms is None else after_ms
        now = self._scripts.instant(now_ms)
        args = (message, app, slot.text, GROUP, item.mark, limit, now, len(buried), *buried, *failure)
        return (*self._invocations.surrender_keys(app, message, slot), self._keys.stranded), args
