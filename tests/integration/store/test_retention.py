"""What is kept and for how long, by the real steps: nothing in the broker grows for ever."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.storedesk import APP, HANDLER, SCHEDULE, T0, T0_MS, Desk

from relayctl.core.manual import ManualRun
from relayctl.core.occurrence import from_epoch
from relayctl.store.controls import Controls
from relayctl.store.dead_letters import DeadLetters
from relayctl.store.definitions import Mode

if TYPE_CHECKING:
    from collections.abc import Callable

DAY_MS = 86_400_000
NODE = 100
"""A server drops entries by whole nodes of so many, so a bound may be passed by one of them."""
EVERY_10_S = json.dumps({"v": 1, "evaluator": "1", "enabled": True, "every": 10})


def fill(desk: Desk, key: str, count: int, age_ms: int) -> None:
    """Entries as they were written that long ago, a millisecond apart."""
    seconds, _ = desk.client.time()  # type: ignore[misc]
    first = int(seconds) * 1000 - age_ms - count
    pipeline = desk.client.pipeline(transaction=False)
    for number in range(count):
        pipeline.xadd(key, {"v": "1", "reason": "old"}, id=f"{first + number}-1")
    pipeline.execute()


def end_a_firing(desk: Desk) -> None:
    desk.register("h1", spec=EVERY_10_S)
    desk.publish(T0)
    [entry] = desk.read()
    desk.route(desk.order(entry))
    desk.end(desk.claimed(entry.id, slot=f"@{SCHEDULE}"))


def close_a_firing(desk: Desk) -> None:
    desk.register("h1", spec=EVERY_10_S)
    assert desk.close(T0) == 1


def end_a_pause(desk: Desk) -> None:
    desk.register("h1", spec=EVERY_10_S)
    controls = Controls(desk.client, desk.keys)
    controls.pause(APP, SCHEDULE, until=None, by="ann", reason="", now_ms=T0_MS)
    controls.resume(APP, SCHEDULE, by="ann", now_ms=T0_MS + 30_000)


def end_an_event_run(desk: Desk) -> None:
    desk.end(desk.claimed(desk.enter((APP, HANDLER))))


ENDS = pytest.mark.parametrize("end", [end_a_firing, close_a_firing, end_a_pause, end_an_event_run])


def history_key(desk: Desk, end: Callable[[Desk], None]) -> str:
    if end is end_an_event_run:
        return desk.keys.history_of_handler(APP, HANDLER)
    return desk.keys.history_of_schedule(APP, SCHEDULE)


@ENDS
def test_history_keeps_a_thousand_records(desk: Desk, end: Callable[[Desk], None]) -> None:
    key = history_key(desk, end)
    fill(desk, key, 1500, age_ms=60_000)
    end(desk)
    kept: Any = desk.client.xrange(key)
    assert 1000 <= len(kept) <= 1000 + NODE
    assert "verdict" in kept[-1][1], "the newest stay"


@ENDS
def test_history_keeps_thirty_days(desk: Desk, end: Callable[[Desk], None]) -> None:
    key = history_key(desk, end)
    fill(desk, key, 300, age_ms=31 * DAY_MS)
    fill(desk, key, 50, age_ms=29 * DAY_MS)
    end(desk)
    kept: Any = desk.client.xrange(key)
    old = [id_ for id_, fields in kept if "verdict" not in fields]
    assert 50 <= len(old) <= 50 + NODE
    left_ms: Any = desk.client.pttl(key)
    assert 29 * DAY_MS < left_ms <= 30 * DAY_MS, "where nothing ends any more, all of it goes"


def bury_one(desk: Desk) -> None:
    desk.end(desk.claimed(desk.enter((APP, HANDLER))), "failed", is_retryable=False)


def test_dead_letters_are_ten_thousand_and_the_evicted_are_counted(desk: Desk) -> None:
    fill(desk, desk.keys.dead_letters, 10_500, age_ms=60_000)
    bury_one(desk)
    there, evicted = DeadLetters(desk.client, desk.keys).counts()
    assert 10_000 <= there <= 10_000 + NODE
    assert there + evicted == 10_501


def test_dead_letters_go_after_thirty_days_and_are_counted(desk: Desk) -> None:
    letters = DeadLetters(desk.client, desk.keys)
    fill(desk, desk.keys.dead_letters, 40, age_ms=31 * DAY_MS)
    fill(desk, desk.keys.dead_letters, 3, age_ms=29 * DAY_MS)
    bury_one(desk)
    assert letters.counts() == (4, 40)
    by_hand: Any = desk.client.xrange(desk.keys.dead_letters, count=1)
    letters.remove(by_hand[0][0])
    assert letters.counts() == (3, 40), "what an operator takes out is no eviction"


def test_a_removed_schedule_and_its_account_go_after_thirty_days(desk: Desk) -> None:
    desk.register("h1", spec=EVERY_10_S)
    desk.publish(T0 - 60)
    desk.remove(1, now_ms=T0_MS)
    for key in (desk.keys.schedule(APP, SCHEDULE), desk.keys.published(APP, SCHEDULE)):
        left_ms: Any = desk.client.pttl(key)
        assert 29 * DAY_MS < left_ms <= 30 * DAY_MS
    assert desk.definitions.removed_names() == [(APP, SCHEDULE)]
    desk.register("h1", schedule="other", now_ms=T0_MS)
    desk.register("tombstone", schedule="other", held=1, spec="", now_ms=T0_MS + 31 * DAY_MS, mode=Mode.EDIT)
    assert desk.definitions.removed_names() == [(APP, "other")], "of the older one nothing is left to audit"


def test_what_is_closed_after_a_removal_goes_too_once_all_is_settled(desk: Desk) -> None:
    desk.register("h1", spec=EVERY_10_S)
    desk.remove(1, now_ms=T0_MS)
    assert desk.close(T0 - 50) == 1
    desk.definitions.settle_removed(APP, SCHEDULE, 2)
    assert desk.definitions.removed_names() == []
    published = desk.keys.published(APP, SCHEDULE)
    left_ms: Any = desk.client.pttl(published)
    assert 29 * DAY_MS < left_ms <= 30 * DAY_MS
    desk.register("h2", spec=EVERY_10_S)
    desk.definitions.settle_removed(APP, SCHEDULE, 3)
    assert desk.client.pttl(published) == -1, "one that is back keeps it, whoever is late"


def test_a_consent_and_the_key_of_a_manual_run_last_a_day(desk: Desk) -> None:
    desk.fleet.consent("abc")
    assert 23 * 3600 < desk.client.ttl(desk.keys.consents) <= 24 * 3600  # type: ignore[operator]
    assert desk.fleet.has_consent("abc")
    desk.register("h1", spec=EVERY_10_S)
    run = ManualRun(app=APP, schedule=SCHEDULE, key="k", asked_at=from_epoch(T0), by="ann")
    Controls(desk.client, desk.keys).trigger(run)
    left_ms: Any = desk.client.pttl(desk.keys.manual(APP, SCHEDULE, "k"))
    assert DAY_MS - 60_000 < left_ms <= DAY_MS


def test_the_log_of_changes_is_bounded(desk: Desk) -> None:
    pipeline = desk.client.pipeline(transaction=False)
    for number in range(1, 5000):
        pipeline.xadd(desk.keys.definitions_log, {"s": "app/x"}, id=f"{number}-0")
    pipeline.set(desk.keys.definitions_seq, 4999)
    pipeline.execute()
    desk.register("h1")
    assert desk.client.xlen(desk.keys.definitions_log) <= 4096 + NODE  # type: ignore[operator]
    assert desk.definitions.changes_since(10) is None, "who is that far behind looks at all"
    assert desk.definitions.changes_since(4999) == [(APP, SCHEDULE)]
