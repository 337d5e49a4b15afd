"""The Lua steps: loaded from `scripts/*.lua`, run by digest, loaded again where a server has lost them.

Every script is idempotent, so running one again after a lost reply or a lost script cache is always allowed. Includes
are textual: `--@include name` stands for `_name.lua`, each once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from relayctl.store.failure import LIBRARY_ERRORS, reply_lost

if TYPE_CHECKING:
    import redis

_INCLUDE = re.compile(r"^--@include (\w+)$", re.MULTILINE)

Arguments = tuple[Sequence[str], Sequence[str | int | float]]
"""KEYS and ARGV of one run."""
Run = tuple[str, Sequence[str], Sequence[str | int | float]]
"""The name of a script, and KEYS and ARGV of one run of it."""
Command = Sequence[str | int | float]
"""A plain command, by itself or behind the runs of a batch."""
_AT_REST: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()
"""By pool, the connection of the last batch: what a pool does for each loan costs as much as a small batch."""
_WRITE_BYTES = 16_384
_MOST_AGAIN = 3
"""A namespace may have moved to a node that does not know the script, and move again meanwhile."""


@cache
def source(name: str) -> str:
    """The text of a script with its includes."""
    folder = files("relayctl.store").joinpath("scripts")

    def included(match: re.Match[str]) -> str:
        return folder.joinpath(f"_{match[1]}.lua").read_text()

    return _INCLUDE.sub(included, folder.joinpath(f"{name}.lua").read_text())


@cache
def digest(name: str) -> str:
    """The name under which the server knows a loaded script."""
    return hashlib.sha1(source(name).encode(), usedforsecurity=False).hexdigest()


class Scripts:
    """Runs scripts on one client. Errors of the library pass through: callers stand inside `failure.translate`."""

    __slots__ = ("_client", "_held")

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        # Of `heldtime.HeldRedis`, which would import the library here.
        self._held: Callable[[], int] | None = getattr(client, "instant_ms", None)

    def instant(self, given: int | None) -> int | str:
        """The argument for a script's `now`: empty, so that the server's TIME counts, unless it is given or held."""
        if given is not None:
            return given
        return "" if self._held is None else self._held()

    def run(self, name: str, keys: Sequence[str], args: Sequence[str | int | float]) -> Any:
        """One run, one round trip."""
        from redis.exceptions import NoScriptError

        try:
            return self._client.evalsha(digest(name), len(keys), *keys, *args)
        except NoScriptError:
            self._load(name, keys[0])
            return self._client.evalsha(digest(name), len(keys), *keys, *args)

    def run_many(self, name: str, runs: Iterable[Arguments], *, then: Sequence[Command] = ()) -> list[Any]:
        """Many runs of one script in one round trip; an answer may be an exception of the library instead of a reply.

        Runs are sent while more of them are made, so that the server is not idle meanwhile. The commands of `then`
        follow on the same connection, and their answers come last. Raises ReplyLost where runs were sent and their
        answers did not come.
        """
        return self.run_all(((name, *run) for run in runs), then=then)

    def run_all(self, runs: Iterable[Run], *, then: Sequence[Command] = ()) -> list[Any]:
        """The same for runs of several scripts, in their order."""
        from redis.exceptions import MovedError, NoScriptError

        made, answers = self._pipelined(runs, then)
        for _ in range(_MOST_AGAIN):
            left = [i for i in range(len(made)) if isinstance(answers[i], (NoScriptError, MovedError))]
            if not left:
                break
            key = made[left[0]][1][0]
            if isinstance(answers[left[0]], MovedError):
                # The client follows its own commands, and remembers where they led.
                self._client.exists(key)
            else:
                for name in dict.fromkeys(made[i][0] for i in left):
                    self._load(name, key)
            _, again = self._pipelined([made[i] for i in left], then)
            for i, answer in zip(left, again[: len(left)], strict=True):
                answers[i] = answer
            answers[len(made) :] = again[len(left) :]
        return answers

    def _load(self, name: str, key: str) -> None:
        """Give the script to the server of that key; in a Cluster others may be down, and need not know it."""
        client: Any = self._client
        node_of = getattr(client, "get_node_from_key", None)
        where = {} if node_of is None else {"target_nodes": node_of(key)}
        client.execute_command("SCRIPT LOAD", source(name), **where)

    def _pipelined(self, runs: Iterable[Run], then: Sequence[Command]) -> tuple[list[Run], list[Any]]:
        remaining = iter(runs)
        first = next(remaining, None)
        if first is None:
            return [], []
        made: list[Run] = []
        return made, self.send(first[1][0], _commands(chain((first,), remaining), made, then))

    def send(self, key: str, commands: Iterable[Command]) -> list[Any]:
        """Plain commands in one round trip, on one connection to the server of `key`; answers as of `run_many`."""
        # Packed by hand: the library's own pipeline costs twice as much per command, and refuses scripts on a Cluster.
        pool = self._pool_for(key)
        connection = _borrowed(pool)
        try:
            answers = _exchanged(connection, commands)
        except BaseException:
            # Replies may still be on their way: this connection must never serve another command.
            connection.disconnect()
            pool.release(connection)
            raise
        _put_by(pool, connection)
        return answers

    def _pool_for(self, key: str) -> Any:
        node_of = getattr(self._client, "get_node_from_key", None)
        cluster: Any = self._client
        client = self._client if node_of is None else cluster.get_redis_connection(node_of(key))
        return client.connection_pool


def _borrowed(pool: Any) -> Any:
    """A connection that is connected and has nothing to be read."""
    try:
        connection = _AT_REST[pool].pop()
    except (KeyError, IndexError):
        return pool.get_connection()
    try:
        if connection.is_connected and not connection.can_read():
            return connection
    except LIBRARY_ERRORS:
        # The server has closed it meanwhile.
        pass
    connection.disconnect()
    pool.release(connection)
    return pool.get_connection()


def _put_by(pool: Any, connection: Any) -> None:
    """Keep the connection of a batch for the next one, or give it back. The pool still closes it with all others."""
    from redis import ConnectionPool

    # Others follow a primary, and have to be asked each time whether a connection is still good.
    if type(pool) is ConnectionPool:
        kept = _AT_REST.setdefault(pool, [])
        if not kept:
            kept.append(connection)
            return
    pool.release(connection)


def _commands(runs: Iterable[Run], made: list[Run], then: Sequence[Command]) -> Iterator[Command]:
    for run in runs:
        made.append(run)
        name, keys, args = run
        yield "EVALSHA", digest(name), len(keys), *keys, *args
    yield from then


def _exchanged(connection: Any, commands: Iterable[Sequence[Any]]) -> list[Any]:
    from redis.exceptions import BusyLoadingError, ConnectionError, ResponseError, TimeoutError  # noqa: A004

    answers: list[Any] = []
    try:
        for _ in range(_send(connection, commands)):
            try:
                answers.append(connection.read_response())
            except ResponseError as error:
                answers.append(error)
    except BusyLoadingError:
        # An answer: nothing was done.
        raise
    except (ConnectionError, TimeoutError) as error:
        raise reply_lost(error) from error
    return answers


def _send(connection: Any, commands: Iterable[Sequence[Any]]) -> int:
    """Send commands in few writes (the library makes one per part), and count them."""
    # The library's own way to the same function looks at each of some forty arguments in Python first.
    from hiredis import pack_command

    count, waiting, size = 0, [], 0
    for command in commands:
        packed = pack_command(tuple(command))
        waiting.append(packed)
        count, size = count + 1, size + len(packed)
        if size >= _WRITE_BYTES:
            connection.send_packed_command([b"".join(waiting)])
            waiting, size = [], 0
    if waiting:
        connection.send_packed_command([b"".join(waiting)])
    return count
