"""The outbox: intents to publish that failed, kept in SQLite until an answer settles them; leases among retriers.

It asks no broker. No transaction spans anything but its own statements, so two processes on one file are safe.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relayctl.core.checkpoint import Checkpoint
from relayctl.core.intent import MOST_ROWS, RETRY_WAITS, ROW_VERSION, Intent, Row, from_columns, to_columns
from relayctl.core.names import split_name
from relayctl.host.database import Database

if TYPE_CHECKING:
    from relayctl.host.clock import Clock

_SCHEMA = """
CREATE TABLE IF NOT EXISTS intents (
  id TEXT PRIMARY KEY, v INTEGER NOT NULL, app TEXT, schedule TEXT, handler TEXT, scheduled_at TEXT, gen INTEGER,
  token TEXT, is_explicit INTEGER DEFAULT 0, attempts INTEGER DEFAULT 0, is_ambiguous INTEGER DEFAULT 0,
  first_failed_at TEXT, last_error TEXT DEFAULT '',
  rounds INTEGER DEFAULT 0, next_at REAL DEFAULT 0, holder TEXT DEFAULT '', held_until REAL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS intents_next ON intents (next_at);
CREATE INDEX IF NOT EXISTS intents_failed ON intents (first_failed_at, id);
CREATE TABLE IF NOT EXISTS checkpoints (
  name TEXT PRIMARY KEY, epoch TEXT, gen INTEGER, hash TEXT, spec TEXT, from_ms INTEGER, floor INTEGER,
  paused_at INTEGER, paused_until INTEGER
);
CREATE TABLE IF NOT EXISTS probe (id INTEGER PRIMARY KEY, at REAL);
"""
_ADDED = (
    ("intents", "marks", "TEXT DEFAULT ''"),
    ("checkpoints", "paused_by", "TEXT"),
    ("checkpoints", "pause_reason", "TEXT"),
    ("checkpoints", "control", "INTEGER"),
    ("checkpoints", "kept_at", "REAL"),
)
"""Columns that came later than their tables."""
CHECKPOINTS_KEPT = timedelta(days=30)
"""How long a checkpoint is kept that no worker on this file has confirmed: its schedule is not loaded here any more."""
_OWN = (
    "id", "v", "app", "schedule", "handler", "scheduled_at", "gen", "token", "is_explicit", "attempts",
    "is_ambiguous", "first_failed_at", "last_error", "marks",
)  # fmt: skip
# Another process may know an answer that this one lost, so doubt is never taken back.
_PUT = f"""
INSERT INTO intents ({", ".join(_OWN)}, next_at, holder, held_until)
VALUES ({", ".join(f":{name}" for name in _OWN)}, :next_at, :holder, :held_until)
ON CONFLICT (id) DO UPDATE SET
  attempts = max(attempts, excluded.attempts), is_ambiguous = max(is_ambiguous, excluded.is_ambiguous),
  last_error = excluded.last_error, next_at = excluded.next_at, holder = excluded.holder,
  held_until = excluded.held_until
WHERE intents.v = excluded.v AND intents.token = excluded.token
"""  # noqa: S608  names of columns
_FREE = "(holder = '' OR held_until <= :now OR held_until > :now + :far)"
"""Nobody holds it, or the lease is over, or reaches so far ahead that the clock must have been set back."""
_MOST_LISTED = 10_000
_PAGE = 20
_FAR_S = 2 * RETRY_WAITS[-1].total_seconds()
_REMEMBERED = (
    "epoch", "gen", "hash", "spec", "from_ms", "floor", "paused_at", "paused_until", "paused_by", "pause_reason",
    "control", "kept_at",
)  # fmt: skip
_CHECKPOINT = f"""
INSERT INTO checkpoints (name, {", ".join(_REMEMBERED)}) VALUES (:name, {", ".join(f":{name}" for name in _REMEMBERED)})
ON CONFLICT (name) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _REMEMBERED)}
"""  # noqa: S608  names of columns


class Outbox:
    """Rows in one file. Every method may be called from any thread and raises FileFailure where the file fails."""

    def __init__(self, path: Path, clock: Clock, on_damage: Callable[[Path, str], None] | None) -> None:
        """`on_damage` hears where a damaged file was set aside, and why; without it one is an error and stays."""
        self._clock = clock
        self._database = Database(path, _SCHEMA, clock, on_damage, _ADDED)

    @property
    def path(self) -> Path:
        """The file."""
        return self._database.path

    def probe(self) -> None:
        """Write something, so that a file that cannot be written is known before a row is lost to it."""
        self._database.execute("INSERT OR REPLACE INTO probe (id, at) VALUES (1, ?)", (self._clock.time(),))

    def put(self, intents: Sequence[Intent], *, holder: str, lease: timedelta) -> None:
        """Keep these, all or none, and hold them for as long as `lease`. Safe to repeat; a repetition renews."""
        now = self._clock.time()
        held_until = now + lease.total_seconds()
        more = {"next_at": now, "holder": holder, "held_until": held_until}
        self._database.execute_many((_PUT, [to_columns(intent) | more for intent in intents]))

    def claim(self, holder: str, *, limit: int, lease: timedelta) -> list[Row]:
        """Hold up to `limit` rows that are due and that nobody holds, the oldest first."""
        now = self._clock.time()
        rows = self._database.query(
            f"""UPDATE intents SET holder = :holder, held_until = :until WHERE id IN (
              SELECT id FROM intents WHERE (next_at <= :now OR next_at > :now + :far) AND {_FREE}
              ORDER BY next_at, scheduled_at LIMIT :limit) RETURNING *""",  # noqa: S608  a constant
            {"holder": holder, "until": now + lease.total_seconds(), "now": now, "far": _FAR_S, "limit": limit},
        )
        return sorted((_row(row) for row in rows), key=lambda row: (row.next_at, row.id))

    def resolve(self, ids: Collection[str], holder: str) -> int:
        """Delete rows that are settled and held by `holder`; how many those were."""
        return self._database.execute_many(
            ("DELETE FROM intents WHERE id = ? AND holder = ?", [(each, holder) for each in ids])
        )

    def reschedule(
        self, each: str, holder: str, wait: timedelta, error: str, *, is_ambiguous: bool = False, is_try: bool = True
    ) -> bool:
        """Let a row go until `wait` is over; False where `holder` does not hold it any more. `is_try` counts it."""
        touched = self._database.execute(
            "UPDATE intents SET holder = '', held_until = 0, next_at = ?, last_error = ?, rounds = rounds + 1, "
            "attempts = attempts + ?, is_ambiguous = max(is_ambiguous, ?) WHERE id = ? AND holder = ?",
            (self._clock.time() + wait.total_seconds(), error, int(is_try), int(is_ambiguous), each, holder),
        )
        return touched > 0

    def release(self, ids: Collection[str], holder: str) -> None:
        """Let rows go: whoever comes next may work on them at once."""
        now = self._clock.time()
        sql = "UPDATE intents SET holder = '', held_until = 0, next_at = ? WHERE id = ? AND holder = ?"
        self._database.execute_many((sql, [(now, each, holder) for each in ids]))

    def hasten(self) -> None:
        """Make every row of a version that is known here due now."""
        self._database.execute("UPDATE intents SET next_at = ? WHERE v <= ?", (self._clock.time(), ROW_VERSION))

    def rows(self, limit: int = _MOST_LISTED) -> list[Row]:
        """What is kept, the oldest firing first."""
        found = self._database.query("SELECT * FROM intents ORDER BY scheduled_at, id LIMIT ?", (limit,))
        return [_row(row) for row in found]

    def count(self) -> int:
        """How many rows there are."""
        [answer] = self._database.query("SELECT count(*) AS n FROM intents")
        return int(answer["n"])

    def standing(self) -> tuple[int, datetime | None]:
        """How many rows there are, and since when the oldest that can be published waits; it makes no file."""
        if not self.path.exists():
            return 0, None
        oldest = self._oldest()
        return self.count(), None if oldest is None else oldest.first_failed_at

    def _oldest(self) -> Intent | None:
        """The intent that failed first. Whoever asks for health asks often, so only damaged rows cost more than one."""
        sql = "SELECT * FROM intents WHERE v BETWEEN 1 AND ? ORDER BY first_failed_at, id LIMIT ? OFFSET ?"
        for start in range(0, _MOST_LISTED, _PAGE):
            rows = self._database.query(sql, (ROW_VERSION, _PAGE, start))
            found = next((intent for row in rows if isinstance(intent := from_columns(row), Intent)), None)
            if found is not None or len(rows) < _PAGE:
                return found
        return None

    def crowded(self) -> list[tuple[str, str]]:
        """The schedules with more rows than one may have."""
        found = self._database.query(
            "SELECT app, schedule FROM intents WHERE v = ? GROUP BY app, schedule HAVING count(*) > ?",
            (ROW_VERSION, MOST_ROWS),
        )
        return [(row["app"], row["schedule"]) for row in found]

    def surplus(self, app: str, schedule: str) -> list[Intent]:
        """The oldest of one schedule's rows beyond the limit that surely were not published."""
        found = self._database.query(
            "SELECT * FROM intents WHERE app = ? AND schedule = ? ORDER BY scheduled_at", (app, schedule)
        )
        over = len(found) - MOST_ROWS
        if over <= 0:
            return []
        intents = [intent for row in found if isinstance(intent := from_columns(row), Intent)]
        return [intent for intent in intents if not intent.is_ambiguous][:over]

    def give_up(self, ids: Collection[str]) -> int:
        """Delete rows whose instants were closed, whoever holds them: their publication would hear `settled`."""
        return self._database.execute_many(("DELETE FROM intents WHERE id = ?", [(each,) for each in ids]))

    def keep(self, epoch: str, checkpoints: Sequence[Checkpoint], gone: Collection[tuple[str, str]] = ()) -> None:
        """Remember these as of that epoch, and forget those that are gone, in one step."""
        self._database.execute_many(
            (_CHECKPOINT, [_checkpoint_columns(item, epoch) | {"kept_at": self._clock.time()} for item in checkpoints]),
            ("DELETE FROM checkpoints WHERE name = ?", [(f"{app}/{schedule}",) for app, schedule in gone]),
        )

    def sweep(self, confirmed: Collection[tuple[str, str]]) -> int:
        """Say which schedules still are, and forget what nobody has confirmed for long; how many rows that touched.

        Other workers may keep checkpoints in the same file, so what this one does not know is left to its age.
        """
        now = self._clock.time()
        confirm = "UPDATE checkpoints SET kept_at = ? WHERE name = ?"
        return self._database.execute_many(
            (confirm, [(now, f"{app}/{schedule}") for app, schedule in confirmed]),
            ("UPDATE checkpoints SET kept_at = ? WHERE kept_at IS NULL", [(now,)]),
            ("DELETE FROM checkpoints WHERE kept_at < ?", [(now - CHECKPOINTS_KEPT.total_seconds(),)]),
        )

    def move_to(self, epoch: str) -> None:
        """The checkpoints of earlier epochs have been offered to this one."""
        self._database.execute("UPDATE checkpoints SET epoch = ? WHERE epoch != ?", (epoch, epoch))

    def checkpoints(self, *, other_than: str | None = None) -> list[Checkpoint]:
        """What is remembered; with `other_than` only what belongs to another epoch. What is damaged is left out."""
        found = self._database.query("SELECT * FROM checkpoints WHERE epoch IS NOT ? ORDER BY name", (other_than,))
        read = (_checkpoint(row) for row in found)
        return [item for item in read if item is not None and item.is_sound]

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _row(columns: dict[str, Any]) -> Row:
    intent = from_columns(columns)
    held_until = columns["held_until"]
    return Row(
        id=str(columns["id"]),
        intent=intent if isinstance(intent, Intent) else None,
        trouble=intent if isinstance(intent, str) else "",
        rounds=columns["rounds"] if isinstance(columns["rounds"], int) else 0,
        next_at=_at(columns["next_at"]),
        holder=str(columns["holder"] or ""),
        held_until=_at(held_until) if held_until else None,
    )


def _at(seconds: object) -> datetime:
    number = seconds if isinstance(seconds, int | float) else 0
    # Whatever a damaged row says stays within what a datetime can be.
    return datetime.fromtimestamp(min(max(number, 0), 32_503_680_000), UTC)


def _checkpoint_columns(item: Checkpoint, epoch: str) -> dict[str, Any]:
    return {
        "name": f"{item.app}/{item.schedule}",
        "epoch": epoch,
        "gen": item.gen,
        "hash": item.hash,
        "spec": item.spec,
        "from_ms": item.from_ms,
        "floor": item.floor,
        "paused_at": item.paused_at,
        "paused_until": item.paused_until,
        "paused_by": item.paused_by,
        "pause_reason": item.pause_reason,
        "control": item.control,
    }


def _checkpoint(row: dict[str, Any]) -> Checkpoint | None:
    app, schedule = split_name(str(row["name"]))
    try:
        return Checkpoint(
            app=app,
            schedule=schedule,
            gen=int(row["gen"]),
            hash=str(row["hash"]),
            spec=str(row["spec"]),
            from_ms=int(row["from_ms"]),
            floor=int(row["floor"]),
            paused_at=None if row["paused_at"] is None else int(row["paused_at"]),
            paused_until=None if row["paused_until"] is None else int(row["paused_until"]),
            paused_by=str(row["paused_by"] or ""),
            pause_reason=str(row["pause_reason"] or ""),
            control=int(row["control"] or 0),
        )
    except (TypeError, ValueError):
        return None
