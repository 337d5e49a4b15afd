"""The dead-letter queue: list, look at, replay and remove letters. Scripts write them where invocations end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from relayctl.core.deadletter import DeadLetter, LetterFilter, letter_of
from relayctl.store.failure import translate
from relayctl.store.scripts import Scripts

if TYPE_CHECKING:
    import redis

    from relayctl.store.keys import Keys

_PAGE = 200


class LetterVerdict(Enum):
    """What became of a demand on a letter."""

    REPLAYED = "replayed"
    RUNNING = "running"  # a replay of it is not over
    FINAL = "final"  # it can never be replayed
    REMOVED = "removed"
    GONE = "gone"


class DeadLetters:
    """Operations on the queue over one client. They raise BrokerUnavailable or BrokerRefused."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._scripts = Scripts(client)

    def newest(self, wanted: LetterFilter, limit: int) -> list[DeadLetter]:
        """Up to `limit` letters that the filter accepts, the newest first."""
        found: list[DeadLetter] = []
        for letter in self._all():
            if wanted.since is not None and letter.at < wanted.since:
                break
            if wanted.accepts(letter):
                found.append(letter)
                if len(found) == limit:
                    break
        return found

    def get(self, letter: str) -> DeadLetter | None:
        """One letter, or None."""
        with translate():
            entries: Any = self._client.xrange(self._keys.dead_letters, letter, letter)
            running: Any = self._client.hget(self._keys.dead_letter_marks, letter) if entries else None
        return letter_of(entries[0][0], entries[0][1], running or "") if entries else None

    def replay(self, letter: str, extra: Sequence[str] = ()) -> tuple[LetterVerdict, str]:
        """Let its invocation run again, as a new message; that message, or the one that runs already."""
        keys = [self._keys.dead_letters, self._keys.dead_letter_marks, self._keys.events]
        return self._run("replay", keys, [letter, *extra])

    def remove(self, letter: str) -> tuple[LetterVerdict, str]:
        """Take it out; where a replay of it runs, nothing is done and its message is answered."""
        return self._run("discard", [self._keys.dead_letters, self._keys.dead_letter_marks], [letter])

    def counts(self) -> tuple[int, int]:
        """How many letters there are, and how many were evicted by number or age since the queue began."""
        from redis.exceptions import ResponseError

        with translate():
            try:
                facts: Any = self._client.xinfo_stream(self._keys.dead_letters)
            except ResponseError as error:
                if "no such key" not in str(error):
                    raise
                return 0, 0
            removed: Any = self._client.hget(self._keys.dead_letter_marks, "removed")
        return int(facts["length"]), int(facts["entries-added"]) - int(facts["length"]) - int(removed or 0)

    def _run(self, script: str, keys: Sequence[str], args: Sequence[str]) -> tuple[LetterVerdict, str]:
        with translate():
            answer = self._scripts.run(script, keys, args)
        return LetterVerdict(answer[0]), answer[1] if len(answer) > 1 else ""

    def _all(self) -> Iterator[DeadLetter]:
        with translate():
            marks: Any = self._client.hgetall(self._keys.dead_letter_marks)
        end = "+"
        while True:
            with translate():
                entries: Any = self._client.xrevrange(self._keys.dead_letters, max=end, count=_PAGE)
            for entry, fields in entries:
                yield letter_of(entry, fields, marks.get(entry, ""))
            if len(entries) < _PAGE:
                return
            end = f"({entries[-1][0]}"
