"""The publication step: one stream entry per due instant, whoever asks, however often, however late."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from support.storedesk import APP, SCHEDULE, T0, T0_MS, Desk, occurrence

from relayctl.errors import BrokerError
from relayctl.store.connect import connect
from relayctl.store.definitions import Mode, Proposal
from relayctl.store.stream import Publication, PublishVerdict

if TYPE_CHECKING:
    from support.broker import PrivateBroker

from relayctl.core.occurrence import epoch_seconds


@pytest.fixture
def ready_desk(desk: Desk) -> Desk:
    """With the schedule registered a minute before T0."""
    desk.register("h1")
    return desk


def put(desk: Desk, **fields: int) -> None:
    desk.client.hset(desk.keys.schedule(APP, SCHEDULE), mapping=fields)


def test_published_appends_the_envelope_and_records_the_instant(ready_desk: Desk) -> None:
    answer = ready_desk.publish(T0)
    assert answer.verdict is PublishVerdict.PUBLISHED
    assert list(ready_desk.entries()) == [answer.entry]
    assert ready_desk.entries()[answer.entry]["event"] == occurrence(T0).to_envelope()
    assert ready_desk.stream.highest_published([(APP, SCHEDULE), (APP, "other")]) == [T0, None]
    ready_desk.publish(T0 + 60)
    assert ready_desk.stream.highest_published([(APP, SCHEDULE)]) == [T0 + 60]
    assert ready_desk.stream.backlog() == 2


def test_a_winner_who_lost_the_reply_hears_that_it_won(ready_desk: Desk) -> None:
    first = ready_desk.publish(T0, token="w1")
    before = ready_desk.contents()
    again = ready_desk.publish(T0, token="w1")
    other = ready_desk.publish(T0, token="w2")
    assert (again.verdict, again.entry) == (PublishVerdict.PUBLISHED, first.entry)
    assert (other.verdict, other.entry) == (PublishVerdict.DUPLICATE, first.entry)
    assert ready_desk.contents() == before


def test_finished_work_is_not_published_again(ready_desk: Desk) -> None:
    first = ready_desk.publish(T0)
    ready_desk.client.xdel(ready_desk.keys.events, first.entry)
    for late_ms in (2_000, 600_000, 6 * 24 * 3600 * 1000):
        answer = ready_desk.publish(T0, token="w2", now_ms=T0_MS + late_ms)
        assert answer.verdict is PublishVerdict.DUPLICATE
    assert ready_desk.stream.backlog() == 0


def test_early_by_more_than_a_second(ready_desk: Desk) -> None:
    assert ready_desk.publish(T0, now_ms=T0_MS - 1001).verdict is PublishVerdict.EARLY
    assert ready_desk.stream.backlog() == 0
    assert ready_desk.publish(T0, now_ms=T0_MS - 1000).verdict is PublishVerdict.PUBLISHED


def test_a_generation_nobody_registered(desk: Desk) -> None:
    assert desk.publish(T0).verdict is PublishVerdict.UNKNOWN
    desk.register("h1")
    assert desk.publish(T0, gen=2).verdict is PublishVerdict.UNKNOWN
    assert desk.stream.backlog() == 0


def test_each_instant_belongs_to_the_generation_in_force_at_its_millisecond(desk: Desk) -> None:
    desk.register("h1", now_ms=T0_MS)
    desk.register("h2", now_ms=T0_MS + 10_000)
    desk.register("h3", now_ms=T0_MS + 20_001)
    late_ms = T0_MS + 60_000
    offers = {
        (T0 - 1, 1): PublishVerdict.STALE,
        (T0, 1): PublishVerdict.PUBLISHED,
        (T0 + 9, 1): PublishVerdict.PUBLISHED,
        (T0 + 10, 1): PublishVerdict.STALE,
        (T0 + 10, 2): PublishVerdict.PUBLISHED,
        (T0 + 9, 2): PublishVerdict.DUPLICATE,
        (T0 + 20, 3): PublishVerdict.STALE,
        (T0 + 20, 2): PublishVerdict.PUBLISHED,
        (T0 + 21, 2): PublishVerdict.STALE,
        (T0 + 21, 3): PublishVerdict.PUBLISHED,
    }
    for (at, gen), expected in offers.items():
        token = f"{at}/{gen}"
        assert desk.publish(at, gen=gen, token=token, now_ms=late_ms).verdict is expected, (at, gen)
    assert {(item["scheduled_at"], item["gen"]) for item in desk.envelopes()} == {
        ("2027-01-15T08:00:00Z", 1),
        ("2027-01-15T08:00:09Z", 1),
        ("2027-01-15T08:00:10Z", 2),
        ("2027-01-15T08:00:20Z", 2),
        ("2027-01-15T08:00:21Z", 3),
    }


def test_a_removed_schedule_still_owes_what_was_due_before(desk: Desk) -> None:
    desk.register("h1", now_ms=T0_MS - 60_000)
    desk.remove(1, now_ms=T0_MS + 1)
    assert desk.publish(T0, now_ms=T0_MS + 5000).verdict is PublishVerdict.PUBLISHED
    assert desk.publish(T0 + 1, now_ms=T0_MS + 5000).verdict is PublishVerdict.STALE


def test_paused_from_its_beginning_on(ready_desk: Desk) -> None:
    put(ready_desk, paused=T0)
    assert ready_desk.publish(T0 - 1).verdict is PublishVerdict.PUBLISHED
    assert ready_desk.publish(T0).verdict is PublishVerdict.PAUSED
    assert ready_desk.publish(T0 + 1).verdict is PublishVerdict.PAUSED


def test_settled_at_and_below_the_floor(ready_desk: Desk) -> None:
    put(ready_desk, floor=T0)
    assert ready_desk.publish(T0 - 1).verdict is PublishVerdict.SETTLED
    assert ready_desk.publish(T0).verdict is PublishVerdict.SETTLED
    assert ready_desk.publish(T0 + 1).verdict is PublishVerdict.PUBLISHED


def test_a_closed_instant_is_settled_for_everybody(ready_desk: Desk) -> None:
    ready_desk.client.hset(ready_desk.keys.published(APP, SCHEDULE), str(T0), "m|w1|")
    for token in ("w1", "w2"):
        assert ready_desk.publish(T0, token=token).verdict is PublishVerdict.SETTLED
    assert ready_desk.stream.backlog() == 0


def test_an_explicit_act_passes_early_pause_and_floor_but_no_interval(ready_desk: Desk) -> None:
    ready_desk.close(T0 - 20)
    put(ready_desk, paused=T0, floor=T0 - 10)
    passed = [ready_desk.publish(at, is_explicit=True, now_ms=T0_MS) for at in (T0 - 20, T0, T0 + 3600)]
    assert [answer.verdict for answer in passed] == [PublishVerdict.PUBLISHED] * 3
    assert ready_desk.publish(T0 - 30, is_explicit=True).verdict is PublishVerdict.SETTLED, "nothing on record"
    assert ready_desk.stream.highest_published([(APP, SCHEDULE)]) == [None], "what came before is owed still"
    assert ready_desk.publish(T0 - 3600, is_explicit=True).verdict is PublishVerdict.STALE
    assert ready_desk.publish(T0, token="tick").verdict is PublishVerdict.DUPLICATE


def test_the_highest_published_never_decreases(ready_desk: Desk) -> None:
    ready_desk.publish(T0 + 10)
    assert ready_desk.publish(T0).verdict is PublishVerdict.PUBLISHED
    assert ready_desk.stream.highest_published([(APP, SCHEDULE)]) == [T0 + 10]


def test_an_append_that_fails_leaves_no_record(ready_desk: Desk) -> None:
    ready_desk.client.set(ready_desk.keys.events, "no stream")
    before = ready_desk.contents_of(ready_desk.keys.schedule(APP, SCHEDULE))
    [(_, answer)] = ready_desk.stream.publish([occurrence(T0)], "w1", now_ms=T0_MS)
    assert isinstance(answer, BrokerError)
    assert ready_desk.client.exists(ready_desk.keys.published(APP, SCHEDULE)) == 0
    assert ready_desk.contents_of(ready_desk.keys.schedule(APP, SCHEDULE)) == before
    ready_desk.client.delete(ready_desk.keys.events)
    assert ready_desk.publish(T0, token="w2").verdict is PublishVerdict.PUBLISHED


def test_a_full_server_refuses_and_records_nothing(ready_desk: Desk) -> None:
    used = ready_desk.client.info("memory")["used_memory"]  # type: ignore[index]
    ready_desk.client.config_set("maxmemory", used // 2)
    try:
        [(_, answer)] = ready_desk.stream.publish([occurrence(T0)], "w1", now_ms=T0_MS)
        assert isinstance(answer, BrokerError)
        assert answer.is_retryable
    finally:
        ready_desk.client.config_set("maxmemory", 0)
    assert ready_desk.client.exists(ready_desk.keys.published(APP, SCHEDULE)) == 0
    assert ready_desk.publish(T0).verdict is PublishVerdict.PUBLISHED


def test_one_bad_publication_does_not_take_the_batch_with_it(desk: Desk) -> None:
    desk.register("h1")
    desk.register("h1", schedule="broken")
    desk.client.delete(desk.keys.schedule(APP, "broken"))
    desk.client.set(desk.keys.schedule(APP, "broken"), "no hash")
    asked = [occurrence(T0, schedule=name) for name in ("broken", SCHEDULE)]
    answers = list(desk.stream.publish(asked, "w1", now_ms=T0_MS))
    assert [item.schedule for item, _ in answers] == ["broken", SCHEDULE]
    assert isinstance(answers[0][1], BrokerError)
    assert isinstance(answers[1][1], Publication)


def test_many_publications_are_answered_in_order(ready_desk: Desk) -> None:
    asked = [occurrence(T0 + number) for number in range(1100)]
    answers = list(ready_desk.stream.publish(asked, "w1", now_ms=T0_MS + 2_000_000))
    assert [item for item, _ in answers] == asked
    entries = ready_desk.entries()
    told = [answer.entry for _, answer in answers if isinstance(answer, Publication)]
    assert [entries[entry]["event"] for entry in told] == [item.to_envelope() for item in asked]
    assert ready_desk.stream.backlog() == 1100


def test_racing_publishers_make_one_entry_per_instant(ready_desk: Desk, broker: PrivateBroker) -> None:
    asked = [occurrence(T0 + number) for number in range(40)]

    def race(token: str) -> list[PublishVerdict]:
        client = connect(broker.target)
        try:
            own = Desk(client)
            return [own.publish(epoch_seconds(item.scheduled_at), token=token).verdict for item in asked]
        finally:
            client.close()

    with ThreadPoolExecutor(4) as pool:
        answers = [verdict for verdicts in pool.map(race, ["w1", "w2", "w3", "w4"]) for verdict in verdicts]
    assert answers.count(PublishVerdict.PUBLISHED) == 40
    assert answers.count(PublishVerdict.DUPLICATE) == 120
    assert len({item["occurrence_id"] for item in ready_desk.envelopes()}) == ready_desk.stream.backlog() == 40


def test_three_thousand_that_are_due_at_once_are_published_once(desk: Desk, broker: PrivateBroker) -> None:
    names = [f"s{number}" for number in range(3000)]
    proposals = [
        Proposal(app=APP, schedule=name, mode=Mode.START, hash="h1", spec="spec of h1", held_gen=0) for name in names
    ]
    desk.definitions.register(proposals, T0_MS - 60_000)
    firings = [occurrence(T0, schedule=name) for name in names]

    def race(token: str) -> list[str]:
        client = connect(broker.target)
        try:
            answers = Desk(client).stream.publish(firings, token, now_ms=T0_MS)
            return [answer.verdict.value for _, answer in answers if isinstance(answer, Publication)]
        finally:
            client.close()

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(race, ["w1", "w2"])
    assert all({one, other} == {"published", "duplicate"} for one, other in zip(first, second, strict=True))
    assert len({item["occurrence_id"] for item in desk.envelopes()}) == desk.stream.backlog() == 3000
