"""Dead letters: replayed once at a time, gone when that went well, kept when it did not, bounded and counted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from support.storedesk import APP, HANDLER, LEASE_MS, SCHEDULE, T0_MS, Desk, order_of

from relayctl.core.deadletter import DeadLetter, LetterFilter
from relayctl.core.lifecycle import Claim, Kind
from relayctl.core.routing import Owed, route_entry
from relayctl.store.dead_letters import DeadLetters, LetterVerdict
from relayctl.store.invocations import ClaimRefusal
from relayctl.store.stream import RouteOrder

NOW = datetime(2027, 1, 15, 8, tzinfo=UTC)


@pytest.fixture
def letters(desk: Desk) -> DeadLetters:
    return DeadLetters(desk.client, desk.keys)


def bury(desk: Desk, number: int = 1, handler: str = HANDLER) -> None:
    """An event that used up its attempts."""
    message = desk.enter((APP, handler), event=f'{{"n":{number}}}')
    desk.end(desk.claimed(message, slot=handler, token=f"t{message}"), "failed", is_retryable=False)


def all_of(letters: DeadLetters, **wanted: Any) -> list[DeadLetter]:
    return letters.newest(LetterFilter(**wanted), 1000)


def route_next(desk: Desk) -> list[list[str]]:
    """Read and route one entry as a worker does."""
    [entry] = desk.read()
    routing = route_entry(entry.fields, {}, now=NOW, max_bytes=1000, check=lambda _claim: None)
    assert isinstance(routing, Owed)
    return desk.route(order_of(entry, routing, desk.keys))


def replayed(desk: Desk, letters: DeadLetters, letter: DeadLetter) -> Claim:
    verdict, message = letters.replay(letter.id)
    assert verdict is LetterVerdict.REPLAYED
    assert route_next(desk) == [["ready"]]
    return desk.claimed(message, slot=letter.slot, retries=0, token=f"t{message}")


def test_a_letter_says_what_it_was(desk: Desk, letters: DeadLetters) -> None:
    bury(desk, 7)
    [letter] = all_of(letters)
    assert (letter.app, letter.handler, letter.event, letter.attempts) == (APP, HANDLER, '{"n":7}', 1)
    assert (letter.reason, letter.is_replayable, letter.target) == ("exhausted", True, f"{APP}/{HANDLER}")
    assert letters.get(letter.id) == letter
    assert letters.get("1-1") is None


def test_a_replay_is_a_new_series_and_removes_the_letter_when_it_goes_well(desk: Desk, letters: DeadLetters) -> None:
    bury(desk)
    [letter] = all_of(letters)
    claim = replayed(desk, letters, letter)
    assert (claim.attempt, claim.event, claim.message != letter.message) == (1, letter.event, True)
    assert letters.replay(letter.id) == (LetterVerdict.RUNNING, claim.message)
    assert letters.remove(letter.id) == (LetterVerdict.RUNNING, claim.message)
    assert all_of(letters)[0].replaying == claim.message
    desk.end(claim)
    assert all_of(letters) == []
    assert letters.replay(letter.id)[0] is LetterVerdict.GONE
    assert desk.stream.backlog() == 0
    newest = desk.history(handler=HANDLER)[-1]
    assert (newest["verdict"], "replayed" in newest["marks"]) == ("succeeded", True)
    assert letters.counts() == (0, 0)


def test_a_replay_that_fails_leaves_one_letter_that_can_be_replayed_again(desk: Desk, letters: DeadLetters) -> None:
    bury(desk)
    [letter] = all_of(letters)
    desk.end(replayed(desk, letters, letter), "failed", is_retryable=False)
    assert all_of(letters) == [letter]
    claim = replayed(desk, letters, letter)
    assert desk.take_back(claim.message, now_ms=T0_MS + LEASE_MS) == ("failed", 1)
    assert all_of(letters) == [letter]
    desk.end(replayed(desk, letters, letter))
    assert all_of(letters) == []


def test_a_replay_whose_letter_was_evicted_meanwhile_leaves_another_one(desk: Desk, letters: DeadLetters) -> None:
    bury(desk)
    [letter] = all_of(letters)
    claim = replayed(desk, letters, letter)
    desk.client.xtrim(desk.keys.dead_letters, maxlen=0, approximate=False)
    desk.end(claim, "failed", is_retryable=False)
    [other] = all_of(letters)
    assert other.event == letter.event
    assert letters.counts() == (1, 1)


def test_a_replayed_firing_of_a_removed_schedule_ends_and_frees_its_letter(desk: Desk, letters: DeadLetters) -> None:
    desk.register("h1")
    desk.publish()
    [entry] = desk.read()
    desk.route(desk.order(entry))
    desk.end(desk.claimed(entry.id, slot="@" + SCHEDULE), "failed", is_retryable=False)
    [letter] = all_of(letters, schedule=SCHEDULE)
    verdict, message = letters.replay(letter.id)
    assert verdict is LetterVerdict.REPLAYED
    assert route_next(desk) == [["ready"]]
    desk.remove(1)
    assert desk.claim(message, slot=letter.slot) is ClaimRefusal.OBSOLETE
    assert all_of(letters) == [letter]
    assert desk.stream.backlog() == 0


def test_nobody_replays_by_writing_an_entry_that_says_so(desk: Desk, letters: DeadLetters) -> None:
    bury(desk)
    [letter] = all_of(letters)
    forged: dict[Any, Any] = {"event": "{}", "replay": letter.id, "app": APP, "slot": HANDLER}
    desk.client.xadd(desk.keys.events, forged)
    assert route_next(desk) == [["dropped"]]
    assert desk.stream.backlog() == 0
    assert all_of(letters) == [letter]


def test_what_can_never_run_is_not_replayed_but_removed(desk: Desk, letters: DeadLetters) -> None:
    desk.stream.emit("rubbish")
    [entry] = desk.read()
    summary = ("v", "1", "message", entry.id, "reason", "not-an-object", "size", "7", "head", "rubb", "replayable", "0")
    desk.route(RouteOrder(id=entry.id, dead=summary))
    [letter] = all_of(letters)
    assert (letter.event, letter.size, letter.target) == ("rubb", 7, "")
    assert letters.replay(letter.id)[0] is LetterVerdict.FINAL
    assert letters.remove(letter.id)[0] is LetterVerdict.REMOVED
    assert letters.remove(letter.id)[0] is LetterVerdict.GONE


def test_a_newer_letter_is_left_to_a_newer_relayctl(desk: Desk, letters: DeadLetters) -> None:
    newer: dict[Any, Any] = {"v": "2", "app": APP, "slot": HANDLER, "event": "{}", "replayable": "1"}
    desk.client.xadd(desk.keys.dead_letters, newer)
    [letter] = all_of(letters)
    assert letter.is_newer
    assert letters.replay(letter.id)[0] is LetterVerdict.FINAL


def test_filters_and_pages(desk: Desk, letters: DeadLetters) -> None:
    for number in range(230):
        bury(desk, number, "h.even" if number % 2 == 0 else "h.odd")
    assert [letter.event for letter in letters.newest(LetterFilter(handler="h.even"), 2)] == ['{"n":228}', '{"n":226}']
    assert len(all_of(letters, handler="h.odd")) == 115
    assert all_of(letters, app="other") == []
    assert all_of(letters, reason="lost") == []
    third = all_of(letters)[2]
    assert len(all_of(letters, since=third.at)) >= 3


def test_old_letters_are_evicted_and_counted(desk: Desk, letters: DeadLetters) -> None:
    seconds, _ = desk.client.time()
    old: dict[Any, Any] = {"v": "1", "reason": "exhausted"}
    for days in (40, 31, 29):
        desk.client.xadd(desk.keys.dead_letters, old, id=f"{(int(seconds) - days * 86_400) * 1000}-0")
    bury(desk)
    assert letters.counts() == (2, 2)
    assert len(all_of(letters)) == 2


def test_a_manual_run_is_replayed_as_one(desk: Desk, letters: DeadLetters) -> None:
    desk.register("h1")
    event = '{"source":"relay.manual","app":"shop","schedule":"nightly","scheduled_at":"2027-01-15T08:00:00Z"}'
    message = desk.enter((APP, "!" + SCHEDULE), kind=Kind.MANUAL, event=event)
    desk.end(desk.claimed(message, slot="!" + SCHEDULE), "failed", is_retryable=False)
    [letter] = all_of(letters)
    assert (letter.schedule, letter.target) == (SCHEDULE, f"{APP}/{SCHEDULE}")
    desk.end(replayed(desk, letters, letter))
    assert [item["kind"] for item in desk.history(schedule=SCHEDULE)] == ["manual", "manual"]


def test_a_replay_that_a_worker_cannot_take_lets_its_letter_go(desk: Desk, letters: DeadLetters) -> None:
    bury(desk)
    [letter] = all_of(letters)
    letters.replay(letter.id)
    [entry] = desk.read()
    desk.route(RouteOrder(id=entry.id, dead=("v", "1", "reason", "too-large", "replayable", "0"), replay=letter.id))
    assert [(item.reason, item.replaying) for item in all_of(letters)] == [("too-large", ""), ("exhausted", "")]
    assert letters.replay(letter.id)[0] is LetterVerdict.REPLAYED


def test_an_entry_that_only_says_it_is_a_replay_ends_none(desk: Desk, letters: DeadLetters) -> None:
    bury(desk)
    [letter] = all_of(letters)
    _, message = letters.replay(letter.id)
    desk.route(RouteOrder(id="9-9", dead=("v", "1", "reason", "too-large", "replayable", "0"), replay=letter.id))
    assert letters.replay(letter.id) == (LetterVerdict.RUNNING, message)
