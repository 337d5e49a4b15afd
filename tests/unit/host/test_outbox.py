"""The outbox on real files: nothing is lost, held twice or deleted by the wrong hand, and damage is set aside."""

from __future__ import annotations

import os
import sqlite3
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from relayctl.core.checkpoint import Checkpoint
from relayctl.core.intent import MOST_ROWS, Intent, from_columns
from relayctl.core.occurrence import Occurrence, from_epoch, instant_text
from relayctl.errors import FileFailure
from relayctl.host import outbox
from relayctl.host.clock import HeldClock
from relayctl.host.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

T0 = 1_800_000_000
LEASE = timedelta(seconds=10)


def intent(at: int = T0, *, app: str = "app", token: str = "t1", **changes: Any) -> Intent:
    occurrence = Occurrence(app=app, schedule="tick", handler="jobs.run", scheduled_at=from_epoch(at), gen=1)
    made = Intent(
        occurrence=occurrence, token=token, attempts=1, first_failed_at=from_epoch(T0), last_error="it is away"
    )
    return replace(made, **changes)


class Box:
    """An outbox, its clock and what it told of damage."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "state.db"
        self.clock = HeldClock(datetime.fromtimestamp(T0, UTC))
        self.damage: list[tuple[Path, str]] = []
        self.outbox = self.another()

    def another(self) -> Outbox:
        """As another process on the same file would have it."""
        return Outbox(self.path, self.clock, lambda where, why: self.damage.append((where, why)))

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    def put(self, *intents: Intent, holder: str = "h1") -> None:
        self.outbox.put(intents, holder=holder, lease=LEASE)

    def claim(self, holder: str, limit: int = 100) -> list[str]:
        return [row.id for row in self.outbox.claim(holder, limit=limit, lease=LEASE)]

    def run(self, sql: str, *params: Any) -> None:
        with sqlite3.connect(self.path) as connection:
            connection.execute(sql, params)
        connection.close()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    made = Box(tmp_path)
    yield made
    made.outbox.close()


def test_an_intent_comes_back_as_it_was(box: Box) -> None:
    kept = intent(is_explicit=True, attempts=3, is_ambiguous=True, last_error="naïve\n")
    box.put(kept)
    again = box.another()
    [row] = again.rows()
    again.close()
    assert (row.intent, row.trouble, row.holder) == (kept, "", "h1")
    assert row.id == "schedule:app:tick:2027-01-15T08:00:00Z"
    assert os.stat(box.path).st_mode & 0o777 == 0o600


def test_the_file_keeps_what_is_acknowledged(box: Box) -> None:
    box.put(intent())
    with sqlite3.connect(box.path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    assert box.outbox._database._connection().execute("PRAGMA synchronous").fetchone() == (2,)


def test_putting_again_changes_nothing_but_what_was_learned(box: Box) -> None:
    box.put(intent(is_ambiguous=True), intent(T0 + 1))
    box.put(intent(attempts=4))
    first, second = (row.intent for row in box.outbox.rows())
    assert first is not None and second is not None
    assert (first.attempts, first.is_ambiguous, second.attempts) == (4, True, 1)
    box.put(intent(token="another", attempts=9))
    assert box.outbox.count() == 2
    assert box.outbox.rows()[0].intent == first, "the token of the first try stays"


def test_rows_go_in_all_or_none(box: Box) -> None:
    broken = intent(T0 + 1, last_error=object())  # no type that a database knows
    with pytest.raises(FileFailure, match="cannot be used"):
        box.put(intent(), broken)
    assert box.outbox.count() == 0


def test_a_row_is_held_by_one(box: Box) -> None:
    box.put(intent(), intent(T0 + 1))
    assert box.claim("h2") == [], "whoever put it holds it"
    box.pass_time(10)
    first = box.claim("h2", limit=1)
    assert first == [intent().occurrence.id]
    other = box.another()
    assert [row.id for row in other.claim("h3", limit=9, lease=LEASE)] == [intent(T0 + 1).occurrence.id]
    other.close()
    assert box.claim("h4") == []


def test_many_claimers_at_once_never_share_a_row(box: Box) -> None:
    box.put(*(intent(T0 + second) for second in range(200)))
    box.pass_time(11)
    taken: list[str] = []

    def take(number: int) -> None:
        mine = box.another()
        while rows := mine.claim(f"h{number}", limit=7, lease=LEASE):
            taken.extend(row.id for row in rows)
        mine.close()

    threads = [threading.Thread(target=take, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(taken), len(set(taken))) == (200, 200)


def test_a_stale_holder_changes_nothing(box: Box) -> None:
    box.put(intent())
    box.pass_time(10)
    [each] = box.claim("slow")
    box.pass_time(10)
    assert box.claim("quick") == [each]
    assert box.outbox.resolve([each], "slow") == 0
    assert not box.outbox.reschedule(each, "slow", timedelta(seconds=5), "too late")
    box.outbox.release([each], "slow")
    [row] = box.outbox.rows()
    assert row.holder == "quick"
    assert row.intent is not None and row.intent.last_error == "it is away"
    assert box.outbox.resolve([each], "quick") == 1
    assert box.outbox.count() == 0


def test_a_rescheduled_row_waits_and_a_hastened_one_does_not(box: Box) -> None:
    box.put(intent())
    box.pass_time(10)
    [each] = box.claim("h")
    assert box.outbox.reschedule(each, "h", timedelta(seconds=30), "still away", is_ambiguous=True)
    box.pass_time(29)
    assert box.claim("h") == []
    box.pass_time(1)
    assert box.claim("h") == [each]
    box.outbox.reschedule(each, "h", timedelta(minutes=10), "still away")
    [row] = box.outbox.rows()
    assert row.intent is not None
    assert (row.rounds, row.intent.attempts, row.intent.is_ambiguous) == (2, 3, True)
    box.outbox.hasten()
    assert box.claim("h") == [each]


def test_a_clock_that_is_set_back_delays_no_row_for_long(box: Box) -> None:
    box.put(intent(), intent(T0 + 1))
    box.pass_time(10)
    one, _ = box.claim("h")
    box.outbox.reschedule(one, "h", timedelta(seconds=5), "away")
    box.clock.step(timedelta(days=-30))
    assert len(box.claim("other")) == 2


@pytest.mark.parametrize(
    ("change", "trouble"),
    [
        ("v = 2", "newer"),
        ("v = 'one'", "version"),
        ("gen = 'x'", "gen"),
        ("app = NULL", "app"),
        ("app = 'other'", "another firing"),
        ("scheduled_at = '2027-01-15T08:00:01Z'", "another firing"),
        ("scheduled_at = '2027-01-15 08:00'", "form"),
        ("schedule = 'a:b'", "name"),
        ("token = x'00ff'", "token"),
        ("first_failed_at = 'soon'", "first_failed_at"),
        ("next_at = 'x'", ""),
        ("held_until = 1e300, rounds = 'y'", ""),
    ],
)
def test_a_bad_row_says_what_is_wrong_and_stays(box: Box, change: str, trouble: str) -> None:
    box.put(intent(), intent(T0 + 5))
    box.run(f"UPDATE intents SET {change} WHERE scheduled_at = '2027-01-15T08:00:00Z'")
    box.pass_time(11)
    rows = {row.id: row for row in box.outbox.rows()}
    bad, good = rows[intent().occurrence.id], rows[intent(T0 + 5).occurrence.id]
    assert (bad.intent is None) == bool(trouble)
    assert trouble in bad.trouble
    assert good.intent == intent(T0 + 5)
    assert good.id in box.claim("h")
    box.outbox.reschedule(bad.id, "h", timedelta(seconds=5), bad.trouble)
    assert box.outbox.count() == 2


def test_beyond_the_limit_the_oldest_that_surely_was_not_published_is_named(box: Box) -> None:
    intents = [intent(T0 + second, is_ambiguous=second < 2) for second in range(MOST_ROWS + 3)]
    box.put(*intents[:MOST_ROWS])
    assert box.outbox.surplus("app", "tick") == []
    box.put(*intents[MOST_ROWS:], intent(app="other"))
    assert box.outbox.surplus("app", "tick") == intents[2:5]
    assert box.outbox.give_up([item.occurrence.id for item in intents[2:5]]) == 3
    assert box.outbox.count() == MOST_ROWS + 1


@pytest.mark.parametrize("how", ["empty", "torn", "overwritten"])
def test_a_damaged_file_is_set_aside_and_a_new_one_begun(box: Box, how: str) -> None:
    box.put(*(intent(T0 + second) for second in range(300)))
    box.outbox.close()
    data = box.path.read_bytes()
    wrong = {"empty": b"", "torn": data[: len(data) // 2 - 100], "overwritten": b"x" * len(data)}[how]
    box.path.write_bytes(wrong)
    box.put(intent(T0 + 900))
    assert [row.intent for row in box.outbox.rows()] == [intent(T0 + 900)]
    [(where, why)] = box.damage
    assert where.name.startswith("state.db.damaged-2027")
    assert where.read_bytes() == wrong
    assert why


def test_damage_that_a_peer_met_loses_no_row_of_others(box: Box) -> None:
    box.put(*(intent(T0 + second) for second in range(300)))
    box.outbox._database._connection().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = os.stat(box.path).st_size
    with open(box.path, "r+b") as file:
        file.write(os.urandom(size))
    other = box.another()
    other.put([intent(T0 + 900)], holder="h", lease=LEASE)
    assert len(box.damage) == 1
    # Who has the old file open goes on in the new one.
    box.put(intent(T0 + 901))
    assert [row.intent for row in other.rows()] == [intent(T0 + 900), intent(T0 + 901)]
    other.close()


def test_a_file_that_was_removed_takes_no_rows(box: Box) -> None:
    box.put(intent())
    for path in list(box.path.parent.iterdir()):
        path.unlink()
    box.put(intent(T0 + 1))
    again = box.another()
    assert [row.intent for row in again.rows()] == [intent(T0 + 1)]
    again.close()


def test_what_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.path.mkdir()
    with pytest.raises(FileFailure, match="cannot be used") as caught:
        box.put(intent())
    assert "state directory" in str(caught.value.help)
    with pytest.raises(FileFailure):
        Box(tmp_path / "absent").outbox.probe()


def test_a_full_file_refuses_and_recovers(box: Box) -> None:
    box.outbox.probe()
    connection = box.outbox._database._connection()
    [[pages]] = connection.execute("PRAGMA page_count").fetchall()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(FileFailure, match="full"):
        box.put(*(intent(T0 + second) for second in range(500)))
    assert box.outbox.count() == 0
    connection.execute("PRAGMA max_page_count = 100000")
    box.put(*(intent(T0 + second) for second in range(500)))
    assert box.outbox.count() == 500


def test_a_writer_that_stalls_delays_and_does_not_break_others(box: Box) -> None:
    box.outbox.probe()
    other = sqlite3.connect(box.path, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.2, other.rollback)
    release.start()
    box.put(intent())
    release.join()
    other.close()
    assert box.outbox.count() == 1


def checkpoint(name: str, floor: int, **changes: Any) -> Checkpoint:
    return replace(
        Checkpoint(app="app", schedule=name, gen=3, hash="h", spec="{}", from_ms=T0 * 1000, floor=floor), **changes
    )


def test_checkpoints_are_kept_by_epoch(box: Box) -> None:
    first = [checkpoint("a", 1), checkpoint("b", 2, paused_at=7, paused_until=9)]
    box.outbox.keep("e1", first)
    box.outbox.keep("e1", [checkpoint("a", 5)], gone=[("app", "c")])
    assert box.outbox.checkpoints(other_than="e1") == []
    assert box.outbox.checkpoints(other_than="e2") == [checkpoint("a", 5), first[1]]
    box.outbox.move_to("e2")
    assert box.outbox.checkpoints(other_than="e2") == []
    box.outbox.keep("e2", [], gone=[("app", "a")])
    assert [item.schedule for item in box.outbox.checkpoints()] == ["b"]


def test_a_damaged_checkpoint_is_no_evidence(box: Box) -> None:
    box.outbox.keep("e1", [checkpoint("a", 1), checkpoint("b", 2), checkpoint("c", 3)])
    box.run("UPDATE checkpoints SET floor = 'x' WHERE name = 'app/a'")
    box.run("UPDATE checkpoints SET hash = '' WHERE name = 'app/b'")
    assert [item.schedule for item in box.outbox.checkpoints(other_than="e2")] == ["c"]


def test_a_file_of_an_earlier_version_gains_what_it_lacks(box: Box) -> None:
    with sqlite3.connect(box.path) as connection:
        connection.execute(
            "CREATE TABLE checkpoints (name TEXT PRIMARY KEY, epoch TEXT, gen INTEGER, hash TEXT, spec TEXT, "
            "from_ms INTEGER, floor INTEGER, paused_at INTEGER, paused_until INTEGER)"
        )
        connection.execute(
            "INSERT INTO checkpoints VALUES ('app/a', 'e1', 3, 'h', '{}', ?, 1, NULL, NULL)", (T0 * 1000,)
        )
    assert box.outbox.checkpoints() == [checkpoint("a", 1)]
    kept = checkpoint("a", 2, paused_at=5, paused_by="ann", pause_reason="x", control=9)
    box.outbox.keep("e1", [kept])
    assert box.outbox.checkpoints() == [kept]


def test_a_checkpoint_that_nobody_confirms_goes_after_a_month(box: Box) -> None:
    box.outbox.keep("e1", [checkpoint("mine", 1), checkpoint("of-a-peer", 2), checkpoint("gone", 3)])
    for _ in range(31):
        box.pass_time(86_400)
        box.outbox.sweep([("app", "mine")])
        box.another().sweep([("app", "of-a-peer")])
    assert [item.schedule for item in box.outbox.checkpoints()] == ["mine", "of-a-peer"]


def test_a_file_that_was_replaced_is_let_go(box: Box) -> None:
    box.put(intent())
    stale = box.outbox._database._connection().conn
    for turn in range(3):
        for path in list(box.path.parent.iterdir()):
            path.unlink()
        box.put(intent(T0 + turn))
    assert len(box.outbox._database._open) == 1
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        stale.execute("SELECT 1")


def test_how_long_the_oldest_row_has_waited(box: Box) -> None:
    assert box.outbox.standing() == (0, None)
    assert not box.path.exists(), "asking makes no file"
    box.put(intent(), intent(T0 + 1, first_failed_at=from_epoch(T0 - 30)), intent(T0 + 2))
    box.run("UPDATE intents SET token = '', first_failed_at = '2000-01-01T00:00:00Z' WHERE scheduled_at LIKE '%:02Z'")
    assert box.outbox.standing() == (3, from_epoch(T0 - 30)), "a row that is never published does not age"


def test_the_oldest_row_is_found_without_reading_the_others(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    box.put(*(intent(T0 + number, first_failed_at=from_epoch(T0 + number)) for number in range(200)))
    read: list[object] = []
    monkeypatch.setattr(outbox, "from_columns", lambda row: read.append(row) or from_columns(row))
    assert box.outbox.standing() == (200, from_epoch(T0))
    assert len(read) == 1
    box.run("UPDATE intents SET token = '' WHERE scheduled_at < '" + instant_text(from_epoch(T0 + 50)) + "'")
    assert box.outbox.standing() == (200, from_epoch(T0 + 50)), "behind two pages of rows that cannot be read"
    box.run("UPDATE intents SET token = ''")
    assert box.outbox.standing() == (200, None)
