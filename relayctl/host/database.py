"""The one door to SQLite: one connection per thread, failures as ours, a damaged file set aside and a new one begun.

It knows files and connections, and nothing of what the tables mean.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from relayctl.errors import FileFailure
from relayctl.host.lock import FileLock

if TYPE_CHECKING:
    from sqlite_utils import Database as Connection

    from relayctl.host.clock import Clock

BUSY_S = 2.0
"""How long a writer waits for another one; no transaction here spans more than statements on this file."""
_OPEN_WITHIN_S = 5.0
_POLL_S = 0.01
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
_HELP = "free space or mend the owner of the state directory; it is tried again by itself"

Params = Sequence[Any] | dict[str, Any]
_T = TypeVar("_T")


class Database:
    """One file and its tables. Every method may be called from any thread; each thread has its own connection.

    They raise FileFailure where the file cannot be used, after one attempt to set aside what is damaged.
    """

    def __init__(
        self,
        path: Path,
        schema: str,
        clock: Clock,
        on_damage: Callable[[Path, str], None] | None,
        added: Sequence[tuple[str, str, str]] = (),
    ) -> None:
        """`schema` makes the tables where they are missing, `on_damage` hears where a damaged file went and why.

        Without `on_damage` a damaged file is an error and stays where it is. `added` are columns (table, name, type)
        that a file of an earlier version lacks.
        """
        self.path = path
        self._schema = schema
        self._added = added
        self._clock = clock
        self._on_damage = on_damage
        self._local = threading.local()
        self._lock = threading.Lock()
        self._open: list[Connection] = []

    def query(self, sql: str, params: Params = ()) -> list[dict[str, Any]]:
        """One statement that answers rows, a writing one too, as one transaction."""
        return self._retried(lambda it: list(it.query(sql, params)))

    def execute(self, sql: str, params: Params = ()) -> int:
        """One statement as one transaction; how many rows it touched."""
        return self._retried(lambda it: it.execute(sql, params).rowcount)

    def execute_many(self, *statements: tuple[str, Sequence[Params]]) -> int:
        """Statements, each with its sets of parameters, as one transaction; how many rows they touched."""

        def run(connection: Connection) -> int:
            with connection.atomic():
                return sum(max(0, connection.conn.executemany(sql, sets).rowcount) for sql, sets in statements if sets)

        return self._retried(run)

    def close(self) -> None:
        """Close every thread's connection; a later call opens new ones."""
        with self._lock:
            closing, self._open = self._open, []
            self._local = threading.local()
        for connection in closing:
            with suppress(sqlite3.Error):
                connection.close()

    def _retried(self, act: Callable[[Connection], _T]) -> _T:
        with self._translated():
            try:
                return act(self._connection())
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
            self.close()
            return act(self._connection())

    def _connection(self) -> Connection:
        known: tuple[Connection, tuple[int, int]] | None = getattr(self._local, "known", None)
        # A file that was set aside by a peer, or deleted, must not go on taking rows that nobody reads.
        if known is not None and known[1] == _identity(self.path):
            return known[0]
        if known is not None:
            self._let_go(known[0])
        with self._alone():
            connection = self._made()
        with self._lock:
            self._open.append(connection)
            self._local.known = (connection, _identity(self.path))
        return connection

    def _let_go(self, connection: Connection) -> None:
        """Close this thread's connection to a file that is not the one at the path any more."""
        self._local.known = None
        with self._lock:
            if connection in self._open:
                self._open.remove(connection)
        with suppress(sqlite3.Error):
            connection.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else opens, makes or sets aside the file meanwhile."""
        lock = FileLock(self.path.with_name(f"{self.path.name}.lock"), self._clock)
        never, left = threading.Event(), _OPEN_WITHIN_S / _POLL_S
        while not lock.try_acquire():
            left -= 1
            if left < 0:
                raise FileFailure(f"the database {self.path} cannot be opened: another process is opening it")
            never.wait(_POLL_S)
        try:
            yield
        finally:
            lock.remove()

    def _made(self) -> Connection:
        with suppress(FileNotFoundError):
            if self.path.stat().st_size == 0:
                # A complete one is never empty, since it is made under the lock.
                self._set_aside("it is empty")
        try:
            return self._opened()
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise
            self._set_aside(str(error))
        return self._opened()

    def _opened(self) -> Connection:
        # It takes longer to import than a command that needs no database may take.
        from sqlite_utils import Database as Connection

        raw = sqlite3.connect(self.path, timeout=BUSY_S, check_same_thread=False)
        try:
            connection = Connection(raw, recursive_triggers=False, execute_plugins=False)
            self.path.chmod(0o600)
            connection.enable_wal()
            raw.execute("PRAGMA synchronous = FULL")
            [[found]] = raw.execute("PRAGMA quick_check(1)").fetchall()
            if found != "ok":
                error = sqlite3.DatabaseError(found)
                error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
                raise error
            connection.executescript(self._schema)
            self._complete(raw)
        except BaseException:
            raw.close()
            raise
        return connection

    def _complete(self, raw: sqlite3.Connection) -> None:
        for table, column, kind in self._added:
            if column not in {row[1] for row in raw.execute(f"PRAGMA table_info({table})")}:
                raw.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")

    def _set_aside(self, reason: str) -> None:
        if self._on_damage is None:
            raise FileFailure(
                f"the database {self.path} is damaged: {reason}",
                help="the next relayctl serve on this state directory sets it aside and begins a new one",
            )
        stamp = f"{self._clock.now():%Y%m%dT%H%M%S.%f}Z"
        aside = self.path.with_name(f"{self.path.name}.damaged-{stamp}")
        for suffix in ("", "-wal"):
            with suppress(FileNotFoundError):
                self.path.with_name(self.path.name + suffix).rename(aside.with_name(aside.name + suffix))
        with suppress(FileNotFoundError):
            self.path.with_name(f"{self.path.name}-shm").unlink()
        self._on_damage(aside, reason)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
            raise FileFailure(f"the database {self.path} cannot be used: {reason}", help=_HELP) from error


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    # The lowest byte is the kind, the rest says where.
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF in _DAMAGE


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116  on every call, and half the price
    except OSError:
        return None
    return found.st_dev, found.st_ino
