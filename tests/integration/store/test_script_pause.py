"""Pauses: from their beginning on nothing is published, and ending one leaves neither a backlog nor a gap."""

from __future__ import annotations

import json

import pytest
from support.storedesk import APP, SCHEDULE, T0, T0_MS, Desk

from relayctl.errors import ArgumentsRefused
from relayctl.store.controls import Controls, ControlVerdict
from relayctl.store.stream import PublishVerdict

EVERY_10_S = json.dumps({"v": 1, "evaluator": "1", "enabled": True, "every": 10})
BY = "ann@host"


@pytest.fixture
def shop(desk: Desk) -> Desk:
    """A desk with a schedule that fires every ten seconds since a minute before T0."""
    desk.register("h1", spec=EVERY_10_S)
    return desk


@pytest.fixture
def controls(shop: Desk) -> Controls:
    return Controls(shop.client, shop.keys)


def pause(controls: Controls, at: int, *, until: int | None = None, reason: str = "") -> tuple[ControlVerdict, int]:
    verdict, beginning = controls.pause(APP, SCHEDULE, until=until, by=BY, reason=reason, now_ms=at * 1000)
    assert beginning is not None
    return verdict, beginning


def verdicts(desk: Desk, *instants: int) -> list[PublishVerdict]:
    return [desk.publish(at, now_ms=(T0 + 500) * 1000).verdict for at in instants]


def records(desk: Desk) -> list[tuple[str, ...]]:
    names = ("from", "scheduled_at", "count", "verdict", "reason")
    return [tuple(item.get(name, "") for name in names) for item in desk.history(schedule=SCHEDULE)]


def test_a_pause_covers_what_comes_after_it(shop: Desk, controls: Controls) -> None:
    shop.publish(T0)
    verdict, beginning = controls.pause(APP, SCHEDULE, until=None, by=BY, reason="x", now_ms=T0_MS + 1)
    assert (verdict, beginning) == (ControlVerdict.PAUSED, T0 + 1)
    assert verdicts(shop, T0 - 10, T0 + 10, T0 + 20) == [
        PublishVerdict.PUBLISHED, PublishVerdict.PAUSED, PublishVerdict.PAUSED,
    ]  # fmt: skip
    found = shop.definitions.heads([(APP, SCHEDULE)])[APP, SCHEDULE]
    assert (found.paused_at, found.paused_by, found.pause_reason, found.paused_until) == (T0 + 1, BY, "x", None)
    assert shop.register("h1", spec=EVERY_10_S)[1] == found, "a worker that registers hears of it"


def test_a_reason_that_is_no_text_is_refused_and_nothing_happens(shop: Desk, controls: Controls) -> None:
    with pytest.raises(ArgumentsRefused, match="UTF-8"):
        controls.pause(APP, SCHEDULE, until=None, by="ann", reason="caf\udce9", now_ms=T0_MS)
    assert controls.resume(APP, SCHEDULE, by="ann", now_ms=T0_MS).verdict is ControlVerdict.RUNNING


def test_pausing_twice_keeps_the_first_beginning_and_takes_the_last_words(shop: Desk, controls: Controls) -> None:
    assert pause(controls, T0, until=T0 + 99, reason="one") == (ControlVerdict.PAUSED, T0)
    before = shop.definitions.seq()
    assert pause(controls, T0 + 5, reason="two") == (ControlVerdict.KEPT, T0)
    assert shop.definitions.seq() == before + 1
    found = shop.definitions.heads([(APP, SCHEDULE)])[APP, SCHEDULE]
    assert (found.paused_at, found.paused_until, found.pause_reason) == (T0, None, "two")


def test_a_pause_outlives_an_edit_and_a_removal(shop: Desk, controls: Controls) -> None:
    pause(controls, T0 - 5)
    shop.register("h2", spec=EVERY_10_S, now_ms=T0_MS)
    shop.remove(2, now_ms=T0_MS + 1)
    assert controls.pause(APP, SCHEDULE, until=None, by=BY, reason="")[0] is ControlVerdict.UNKNOWN
    shop.register("h3", spec=EVERY_10_S, now_ms=T0_MS + 2)
    assert shop.publish(T0 + 10, gen=4).verdict is PublishVerdict.PAUSED


def test_resuming_closes_the_pause_and_owes_nothing(shop: Desk, controls: Controls) -> None:
    for at in (T0 - 60, T0 - 50, T0 - 20):
        shop.publish(at)
    pause(controls, T0 + 1, reason="repair")
    shop.publish(T0 + 30, is_explicit=True)
    answer = controls.resume(APP, SCHEDULE, by=BY, now_ms=(T0 + 55) * 1000)
    assert (answer.verdict, answer.paused, answer.missed) == (ControlVerdict.RESUMED, 4, 4)
    assert records(shop) == [
        ("2027-01-15T07:59:20Z", "2027-01-15T07:59:30Z", "2", "missed", "still open when its pause was resumed"),
        ("2027-01-15T07:59:50Z", "2027-01-15T08:00:00Z", "2", "missed", "still open when its pause was resumed"),
        ("2027-01-15T08:00:10Z", "2027-01-15T08:00:50Z", "4", "paused", "repair"),
    ]
    settled = [PublishVerdict.SETTLED] * 4
    assert verdicts(shop, T0 - 30, T0 + 10, T0 + 20, T0 + 50) == settled
    assert verdicts(shop, T0 + 60) == [PublishVerdict.PUBLISHED]
    found = shop.definitions.heads([(APP, SCHEDULE)])[APP, SCHEDULE]
    assert (found.paused_at, found.floor) == (None, T0 + 55)
    before = shop.contents()
    assert controls.resume(APP, SCHEDULE, by=BY).verdict is ControlVerdict.RUNNING
    assert shop.contents() == before


def test_a_closing_by_resume_can_be_replaced_by_an_explicit_run(shop: Desk, controls: Controls) -> None:
    pause(controls, T0)
    controls.resume(APP, SCHEDULE, by=BY, now_ms=(T0 + 55) * 1000)
    assert shop.publish(T0 + 20).verdict is PublishVerdict.SETTLED
    first = shop.publish(T0 + 20, is_explicit=True, token="hand")
    assert first.verdict is PublishVerdict.PUBLISHED
    assert shop.publish(T0 + 20, is_explicit=True, token="other").entry == first.entry


def test_a_pause_undone_within_its_second_leaves_no_trace(shop: Desk, controls: Controls) -> None:
    controls.pause(APP, SCHEDULE, until=None, by=BY, reason="", now_ms=T0_MS + 1)
    answer = controls.resume(APP, SCHEDULE, by=BY, now_ms=T0_MS + 900)
    assert (answer.verdict, answer.paused, answer.missed) == (ControlVerdict.RESUMED, 0, 0)
    assert verdicts(shop, T0, T0 + 10) == [PublishVerdict.PUBLISHED] * 2
    assert shop.history(schedule=SCHEDULE) == []


def test_a_pause_with_an_end_covers_nothing_from_there_on(shop: Desk, controls: Controls) -> None:
    pause(controls, T0, until=T0 + 30)
    assert verdicts(shop, T0 + 20, T0 + 30) == [PublishVerdict.PAUSED, PublishVerdict.PUBLISHED]
    early = controls.resume(APP, SCHEDULE, by="w1", only_ended=True, now_ms=(T0 + 29) * 1000)
    assert early.verdict is ControlVerdict.RUNNING
    late = controls.resume(APP, SCHEDULE, by="w1", only_ended=True, now_ms=(T0 + 300) * 1000)
    assert (late.verdict, late.paused) == (ControlVerdict.RESUMED, 3)
    # What came after its end was never paused: catch-up decides on it.
    assert shop.definitions.heads([(APP, SCHEDULE)])[APP, SCHEDULE].floor == T0 + 29
    assert verdicts(shop, T0 + 40) == [PublishVerdict.PUBLISHED]


def test_a_new_pause_after_one_that_has_ended_is_a_new_one(shop: Desk, controls: Controls) -> None:
    pause(controls, T0, until=T0 + 30)
    assert pause(controls, T0 + 100) == (ControlVerdict.PAUSED, T0 + 100)
    assert [item[3] for item in records(shop)] == ["missed", "paused"]
    assert verdicts(shop, T0 + 40, T0 + 100) == [PublishVerdict.PUBLISHED, PublishVerdict.PAUSED]


def test_a_resume_of_another_pause_than_was_read_does_nothing(shop: Desk, controls: Controls) -> None:
    pause(controls, T0)
    keys = shop.keys
    answer = controls._scripts.run(
        "resume",
        [
            keys.schedule(APP, SCHEDULE),
            keys.published(APP, SCHEDULE),
            keys.history_of_schedule(APP, SCHEDULE),
            keys.definitions_seq,
            keys.definitions_log,
            keys.events,
        ],
        [T0 - 1, "", T0 + 5, f"{APP}/{SCHEDULE}", APP, SCHEDULE, "[]"],
    )
    assert answer == ["moved"]
    assert verdicts(shop, T0 + 10) == [PublishVerdict.PAUSED]


def test_a_year_of_seconds_is_one_record_and_quick(desk: Desk) -> None:
    desk.register("h1", spec=EVERY_10_S.replace("10", "1"), now_ms=T0_MS)
    controls = Controls(desk.client, desk.keys)
    pause(controls, T0)
    answer = controls.resume(APP, SCHEDULE, by=BY, now_ms=(T0 + 366 * 86_400) * 1000)
    assert answer.paused == 366 * 86_400 + 1
    assert len(desk.history(schedule=SCHEDULE)) == 1
    assert desk.client.hlen(desk.keys.published(APP, SCHEDULE)) == 1


def test_verdicts_of_a_pause_are_offered_where_a_rule_wants_them(shop: Desk) -> None:
    wanted = Controls(shop.client, shop.keys, lambda: True)
    pause(wanted, T0, reason="repair")
    wanted.resume(APP, SCHEDULE, by=BY, now_ms=(T0 + 25) * 1000)
    missed, paused = shop.envelopes()
    assert (missed["source"], missed["verdict"]) == ("relay.verdict", "missed")
    assert (paused["app"], paused["schedule"], paused["verdict"], paused["reason"], paused["count"]) == (
        APP, SCHEDULE, "paused", "repair", 3,
    )  # fmt: skip
    assert all("offer" not in item for item in shop.history(schedule=SCHEDULE))


def test_each_act_is_handed_out_once(shop: Desk, controls: Controls) -> None:
    pause(controls, T0, reason="one")
    before = shop.contents()
    assert pause(controls, T0 + 5, reason="one") == (ControlVerdict.KEPT, T0)
    assert shop.contents() == before, "who says the same again, or lost the answer, changes nothing"
    pause(controls, T0 + 5, reason="two")
    controls.resume(APP, SCHEDULE, by="bob@host", now_ms=(T0 + 9) * 1000)
    told = [(act.action, act.by, act.reason) for act in controls.take_untold(APP, SCHEDULE)]
    assert told == [("pause", BY, "one"), ("pause", BY, "two"), ("resume", "bob@host", "")]
    assert controls.take_untold(APP, SCHEDULE) == []
    for number in range(40):
        pause(controls, T0 + 20, reason=str(number))
    told = [(act.action, act.by, act.reason) for act in controls.take_untold(APP, SCHEDULE)]
    assert [reason for _, _, reason in told] == [str(number) for number in range(24, 40)], "it is bounded"


FOREIGN = EVERY_10_S.replace('"1"', '"0"')


def test_what_another_evaluator_decided_is_not_counted_here(shop: Desk, controls: Controls) -> None:
    pause(controls, T0)
    shop.register("h2", spec=FOREIGN, now_ms=T0_MS + 25_000)
    before = shop.contents()
    assert controls.resume(APP, SCHEDULE, by=BY, now_ms=(T0 + 90) * 1000).verdict is ControlVerdict.FOREIGN
    assert shop.contents() == before, "it is for somebody who can judge it"
    shop.register("h3", spec=EVERY_10_S.replace("10", "5"), now_ms=T0_MS + 55_000)
    answer = controls.resume(APP, SCHEDULE, by=BY, now_ms=(T0 + 65) * 1000)
    assert answer.verdict is ControlVerdict.RESUMED
    # Of the definition in between nothing is known; a range over it would close what nobody here can name.
    assert [item for item in records(shop) if item[3] == "paused"] == [
        ("2027-01-15T08:00:00Z", "2027-01-15T08:00:20Z", "3", "paused", "paused"),
        ("2027-01-15T08:00:55Z", "2027-01-15T08:01:05Z", "3", "paused", "paused"),
    ]


def test_a_pause_that_has_ended_and_cannot_be_judged_is_said_so(shop: Desk, controls: Controls) -> None:
    pause(controls, T0, until=T0 + 5)
    shop.register("h2", spec=FOREIGN, now_ms=T0_MS + 1000)
    answer = controls.pause(APP, SCHEDULE, until=None, by=BY, reason="", now_ms=(T0 + 9) * 1000)
    assert answer == (ControlVerdict.FOREIGN, None)
