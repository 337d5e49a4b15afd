"""The closing step: a firing that nobody will publish gets its verdict once, alone or with its neighbours."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from support.storedesk import APP, SCHEDULE, T0, T0_MS, Desk

from relayctl.core.lifecycle import Verdict
from relayctl.store.connect import connect
from relayctl.store.stream import PublishVerdict

if TYPE_CHECKING:
    from support.broker import PrivateBroker


@pytest.fixture
def ready_desk(desk: Desk) -> Desk:
    """With the schedule registered two hours before T0."""
    desk.register("h1", now_ms=T0_MS - 7_200_000)
    return desk


def test_a_closed_instant_is_settled_and_recorded(ready_desk: Desk) -> None:
    assert ready_desk.close(T0, reason="catch_up: none") == 1
    assert ready_desk.publish(T0).verdict is PublishVerdict.SETTLED
    assert ready_desk.recorded() == {str(T0): "c|missed|catch_up: none"}
    [record] = ready_desk.history(schedule=SCHEDULE)
    assert record == {
        "v": "1", "kind": "schedule", "scheduled_at": "2027-01-15T08:00:00Z", "finished": str(T0_MS),
        "verdict": "missed", "reason": "catch_up: none", "worker": "w1",
    }  # fmt: skip


def test_what_is_published_cannot_be_closed(ready_desk: Desk) -> None:
    entry = ready_desk.publish(T0).entry
    assert ready_desk.close(T0) == 0
    assert ready_desk.recorded() == {str(T0): f"p|w1|{entry}"}
    assert ready_desk.history(schedule=SCHEDULE) == []


def test_a_range_is_one_field_and_one_record_however_long(ready_desk: Desk) -> None:
    assert ready_desk.close(T0 - 3600, T0 - 60, reason="catch_up: latest") == 60
    assert ready_desk.recorded() == {f"{T0 - 3600}-{T0 - 60}": "c|missed|catch_up: latest"}
    [record] = ready_desk.history(schedule=SCHEDULE)
    assert (record["from"], record["scheduled_at"], record["count"]) == (
        "2027-01-15T07:00:00Z",
        "2027-01-15T07:59:00Z",
        "60",
    )
    for at in (T0 - 3600, T0 - 1800, T0 - 60):
        assert ready_desk.publish(at).verdict is PublishVerdict.SETTLED
    assert ready_desk.publish(T0).verdict is PublishVerdict.PUBLISHED
    assert ready_desk.publish(T0 - 3660).verdict is PublishVerdict.PUBLISHED


def test_a_published_instant_inside_a_range_stays_published(ready_desk: Desk) -> None:
    entry = ready_desk.publish(T0 - 1800).entry
    assert ready_desk.close(T0 - 3600, T0 - 60) == 59
    assert ready_desk.publish(T0 - 1800, token="w2").entry == entry
    assert ready_desk.history(schedule=SCHEDULE)[0]["count"] == "59"


@pytest.mark.parametrize(
    ("second", "closed"),
    [
        ((T0 - 3600, T0 - 60), 0),  # the same again
        ((T0 - 1800, T0 - 600), 0),  # inside it
        ((T0 - 1800, T0 + 600), 11),  # over its end
        ((T0 - 5400, T0 - 1800), 30),  # over its beginning
        ((T0 - 5400, T0 + 600), 41),  # around it
        ((T0 + 60, T0 + 120), 2),  # beside it
    ],
)
def test_overlapping_ranges_close_each_instant_once(ready_desk: Desk, second: tuple[int, int], closed: int) -> None:
    ready_desk.close(T0 - 3600, T0 - 60)
    assert ready_desk.close(*second) == closed
    total = sum(int(record.get("count", "1")) for record in ready_desk.history(schedule=SCHEDULE))
    assert total == 60 + closed
    before = ready_desk.contents()
    assert ready_desk.close(*second) == 0
    assert ready_desk.contents() == before


def test_what_a_pause_covers_is_left_to_its_end(ready_desk: Desk) -> None:
    key = ready_desk.keys.schedule(APP, SCHEDULE)
    ready_desk.client.hset(key, "paused", T0 - 1800)
    assert ready_desk.close(T0 - 3600, T0) == 30
    assert ready_desk.close(T0 - 60) == 0
    ready_desk.client.hset(key, "paused_until", T0 - 600)
    assert ready_desk.close(T0 - 3600, T0) == 11
    assert ready_desk.close(T0 - 1800, T0 - 660, verdict=Verdict.PAUSED) == 20
    assert ready_desk.close(T0 - 3600, T0) == 0


def test_nothing_at_or_below_the_floor_is_closed(ready_desk: Desk) -> None:
    ready_desk.client.hset(ready_desk.keys.schedule(APP, SCHEDULE), "floor", T0 - 600)
    assert ready_desk.close(T0 - 3600, T0 - 600) == 0
    assert ready_desk.close(T0 - 3600, T0 - 60) == 9
    assert ready_desk.close(T0 - 600) == 0


@pytest.mark.parametrize("verdict", [Verdict.MISSED, Verdict.PAUSED])
@pytest.mark.parametrize("is_range", [False, True])
def test_an_operator_may_replace_it_and_a_tick_may_not(ready_desk: Desk, verdict: Verdict, is_range: bool) -> None:
    ready_desk.close(*((T0 - 3600, T0) if is_range else (T0,)), verdict=verdict)
    assert ready_desk.publish(T0).verdict is PublishVerdict.SETTLED
    answer = ready_desk.publish(T0, is_explicit=True, token="op")
    assert answer.verdict is PublishVerdict.PUBLISHED
    assert ready_desk.publish(T0, is_explicit=True, token="other").entry == answer.entry
    assert ready_desk.publish(T0).verdict is PublishVerdict.DUPLICATE
    assert ready_desk.stream.backlog() == 1


def test_an_operator_cannot_run_again_what_was_skipped(ready_desk: Desk) -> None:
    ready_desk.close(T0, verdict=Verdict.SKIPPED)
    assert ready_desk.publish(T0, is_explicit=True).verdict is PublishVerdict.SETTLED


def test_of_many_at_once_one_wins(ready_desk: Desk, broker: PrivateBroker) -> None:
    """Closers and publishers race for ten instants: each has one state, and the counts add up."""
    clients = [connect(broker.target) for _ in range(6)]
    desks = [Desk(client) for client in clients]

    def act(number: int) -> int:
        desk = desks[number]
        if number % 2:
            return desk.close(T0 - 540, T0)
        answers = [desk.publish(T0 - 60 * place, token=f"w{number}", now_ms=T0_MS) for place in range(10)]
        return sum(1 for answer in answers if answer.verdict is PublishVerdict.PUBLISHED)

    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(act, range(6)))
    assert sum(done) == 10
    assert ready_desk.stream.backlog() == sum(done[::2])
    for client in clients:
        client.close()


# --- the floor ---


def test_the_floor_rises_and_drops_what_lies_below(ready_desk: Desk) -> None:
    for at in (T0 - 120, T0 - 60, T0):
        ready_desk.publish(at)
    assert ready_desk.raise_floor(T0 - 60, str(T0 - 120), str(T0 - 60))
    assert list(ready_desk.recorded()) == [str(T0)]
    assert ready_desk.publish(T0 - 120).verdict is PublishVerdict.SETTLED
    assert ready_desk.publish(T0 - 120, is_explicit=True).verdict is PublishVerdict.SETTLED
    assert ready_desk.publish(T0, token="w2").verdict is PublishVerdict.DUPLICATE


def test_a_floor_that_moved_meanwhile_stays(ready_desk: Desk) -> None:
    read, _ = ready_desk.closings.recorded(APP, SCHEDULE)
    assert read is not None
    assert ready_desk.raise_floor(T0)
    before = ready_desk.contents()
    assert not ready_desk.closings.raise_floor(APP, SCHEDULE, read, T0 + 60, [])
    assert not ready_desk.raise_floor(T0 - 60), "and it never decreases"
    assert ready_desk.contents() == before


def test_a_definition_that_changed_meanwhile_keeps_the_floor(ready_desk: Desk) -> None:
    read, _ = ready_desk.closings.recorded(APP, SCHEDULE)
    assert read is not None
    ready_desk.register("h2")
    assert not ready_desk.closings.raise_floor(APP, SCHEDULE, read, T0, [])
    assert "floor" not in ready_desk.client.hgetall(ready_desk.keys.schedule(APP, SCHEDULE))


def test_many_fields_are_dropped_in_several_steps(ready_desk: Desk) -> None:
    fields = {str(T0 - 2000 + number): "p|w1|1-1" for number in range(1300)}
    ready_desk.client.hset(ready_desk.keys.published(APP, SCHEDULE), mapping=fields)
    assert ready_desk.raise_floor(T0 - 701, *list(fields)[:1299])
    assert list(ready_desk.recorded()) == [str(T0 - 701)]


def test_an_account_of_nothing(desk: Desk) -> None:
    assert desk.closings.accounts([(APP, SCHEDULE)]) == [None]
    assert desk.closings.recorded(APP, SCHEDULE) == (None, {})


def test_what_is_closed_counts_as_settled_for_people_and_not_for_what_is_owed(ready_desk: Desk) -> None:
    ready_desk.publish(T0 - 7000)
    ready_desk.close(T0)
    ready_desk.close(T0 - 3600, T0 - 60)
    head = ready_desk.definitions.heads([(APP, SCHEDULE)])[APP, SCHEDULE]
    assert (head.closed_until, head.settled_mark, head.settled_until) == (T0, T0, T0 - 7000)
    assert ready_desk.publish(T0 - 30).verdict is PublishVerdict.PUBLISHED
