"""The Lua steps: loaded from `scripts/*.lua`, run by digest, loaded again where a server has lost them.

Every script is idempotent, so running one again after a lost reply or a lost script cache is always allowed. Includes
are textual: `--@include name` stands for `_name.lua`, each once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from relayctl.store.failure import reply_lost

if TYPE_CHECKING:
    import redis

_INCLUDE = re.compile(r"^--@include (\w+)$", re.MULTILINE)

Arguments = tuple[Sequence[str], Sequence[str | int | float]]
"""KEYS and ARGV of one run."""
Command = Sequence[str | int]
"""A plain command that rides along behind the runs of a batch."""


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

    __slots__ = ("_client",)

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def run(self, name: str, keys: Sequence[str], args: Sequence[str | int | float]) -> Any:
        """One run, one round trip."""
        from redis.exceptions import NoScriptError

        try:
            return self._client.evalsha(digest(name), len(keys), *keys, *args)
        except NoScriptError:
            self._client.script_load(source(name))
            return self._client.evalsha(digest(name), len(keys), *keys, *args)

    def run_many(self, name: str, runs: Sequence[Arguments], *, then: Command | None = None) -> list[Any]:
        """Many runs in one round trip; an answer may be an exception of the library instead of a reply.

        `then` follows on the same connection, and its answer comes last. Raises ReplyLost where the runs were sent
        and their answers did not come.
        """
        if not runs:
            return []
        from redis.exceptions import NoScriptError

        answers = self._pipelined(name, runs, then)
        lost = [i for i in range(len(runs)) if isinstance(answers[i], NoScriptError)]
        if lost:
            self._client.script_load(source(name))
            again = self._pipelined(name, [runs[i] for i in lost], then)
            for i, answer in zip(lost, again[: len(lost)], strict=True):
                answers[i] = answer
            answers[len(runs) :] = again[len(lost) :]
        return answers

    def _pipelined(self, name: str, runs: Sequence[Arguments], then: Command | None) -> list[Any]:
        # Packed by hand: the library's own pipeline costs twice as much per command, and refuses scripts on a Cluster.
        pool = self._pool_for(runs[0][0][0])
        connection = pool.get_connection()
        sha = digest(name)
        try:
            commands: list[Sequence[Any]] = [("EVALSHA", sha, len(keys), *keys, *args) for keys, args in runs]
            if then is not None:
                commands.append(then)
            parts = [part for command in commands for part in connection.pack_command(*command)]
            return _exchanged(connection, parts, len(commands))
        except BaseException:
            # Replies may still be on their way: this connection must never serve another command.
            connection.disconnect()
            raise
        finally:
            pool.release(connection)

    def _pool_for(self, key: str) -> Any:
        node_of = getattr(self._client, "get_node_from_key", None)
        client = self._client if node_of is None else node_of(key).redis_connection
        return client.connection_pool


def _exchanged(connection: Any, parts: Sequence[bytes], count: int) -> list[Any]:
    from redis.exceptions import BusyLoadingError, ConnectionError, ResponseError, TimeoutError  # noqa: A004

    answers: list[Any] = []
    try:
        # One write: the library makes one per part.
        connection.send_packed_command([b"".join(parts)])
        for _ in range(count):
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
