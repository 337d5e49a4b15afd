"""Kept output: written with the end it belongs to or while the claim stands, and bounded by number, bytes and age."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.storedesk import APP, HANDLER, LEASE_MS, SCHEDULE, T0_MS, Desk, attempt, without_budget

from relayctl.core.lifecycle import Claim, Slot
from relayctl.core.output import KeptOutput, OutputLimits, output_of
from relayctl.errors import BrokerError
from relayctl.store.invocations import EndVerdict, Invocations
from relayctl.store.outputs import Outputs

if TYPE_CHECKING:
    from collections.abc import Callable

DAY_MS = 24 * 3600 * 1000


class Press:
    """Runs that print, and what is kept of them."""

    def __init__(self, desk: Desk, *, attempts: int = 50, total_bytes: int = 1 << 28) -> None:
        self.desk = desk
        self.client: Any = desk.client
        self.limits = OutputLimits(attempts=attempts, total_bytes=total_bytes)
        self.outputs = Outputs(desk.client, desk.keys, self.limits)
        self.invocations = Invocations(desk.client, desk.keys, limits=self.limits)

    def claim(self, handler: str = HANDLER, token: str = "t1", now_ms: int = T0_MS) -> Claim:
        return self.desk.claimed(self.desk.enter((APP, handler)), slot=handler, token=token, now_ms=now_ms)

    def kept(self, claim: Claim, text: str = "hello\n", **changes: Any) -> KeptOutput:
        return replace(output_of(claim, worker="w1", started_ms=T0_MS), text=text, printed=len(text), **changes)

    def end(
        self,
        claim: Claim,
        outcome: str = "succeeded",
        *,
        text: str = "hello\n",
        now_ms: int = T0_MS + 10,
        is_silent: bool = False,
        retry: bool = False,
    ) -> EndVerdict:
        kept = self.kept(claim, text, outcome=outcome, finished_ms=now_ms)
        ended = replace(attempt(outcome), output=kept, is_silent=is_silent)
        [answer] = self.invocations.end([(claim if retry else without_budget(claim), ended)], now_ms)
        assert not isinstance(answer, BrokerError), answer
        return answer[0]

    def tell(self, claim: Claim, text: str, now_ms: int = T0_MS + 5) -> None:
        self.outputs.keep([(claim, self.kept(claim, text))], now_ms)

    def texts(self, handler: str = HANDLER) -> list[str]:
        return [kept.text for kept in self.outputs.of_handler(APP, handler)]

    def weight(self) -> int:
        return int(self.client.hget(self.desk.keys.output_texts, "bytes") or 0)

    def weighed(self) -> int:
        """The same, by weighing all that is there."""
        texts = self.client.hgetall(self.desk.keys.output_texts)
        return sum(len(text.encode()) + 384 for name, text in texts.items() if name != "bytes")


@pytest.fixture
def press(desk: Desk) -> Press:
    return Press(desk)


def test_an_end_brings_its_output(press: Press) -> None:
    claim = press.claim()
    assert press.end(claim, text="h\u00e9llo\n") is EndVerdict.ENDED
    [kept] = press.outputs.of_run(APP, claim.slot, claim.message)
    assert (kept.text, kept.outcome, kept.attempt, kept.allowed, kept.handler) == (
        "h\u00e9llo\n",
        "succeeded",
        1,
        3,
        HANDLER,
    )
    assert press.weight() == press.weighed() > 0
    assert press.outputs.standing(APP, claim.slot, claim.message).is_over


def test_each_attempt_has_its_own(press: Press) -> None:
    message = press.desk.enter((APP, HANDLER))
    for number in (1, 2, 3):
        claim = press.desk.claimed(message, token=f"t{number}", now_ms=T0_MS + number * 10_000)
        press.end(claim, "failed", text=f"try {number}\n", now_ms=T0_MS + number * 10_000, retry=True)
    kept = press.outputs.of_run(APP, claim.slot, message)
    assert [(each.attempt, each.text, each.outcome) for each in kept] == [
        (number, f"try {number}\n", "failed") for number in (1, 2, 3)
    ]


def test_an_attempt_that_was_handed_back_keeps_what_it_printed(press: Press) -> None:
    message = press.desk.enter((APP, HANDLER))
    first = press.desk.claimed(message, token="t1")
    cut = press.kept(first, "half\n", outcome="interrupted")
    press.invocations.end([(first, replace(attempt("released"), output=cut))], T0_MS)
    second = press.desk.claimed(message, token="t2")
    press.end(second, text="whole\n")
    assert [(each.attempt, each.outcome) for each in press.outputs.of_run(APP, first.slot, message)] == [
        (1, "interrupted"),
        (1, "succeeded"),
    ]


def test_a_stale_end_leaves_no_output(press: Press) -> None:
    message = press.desk.enter((APP, HANDLER))
    stale = press.desk.claimed(message, token="t1")
    press.desk.take_back(message, now_ms=T0_MS + LEASE_MS)
    press.desk.claimed(message, token="t2", now_ms=T0_MS + LEASE_MS)
    assert press.end(stale, "failed", text="old\n") is EndVerdict.LOST
    press.tell(stale, "old\n")
    assert press.texts() == []
    assert press.client.exists(press.desk.keys.output_times) == 0


def test_what_was_told_while_it_ran_is_replaced_by_its_end_and_comes_no_more(press: Press) -> None:
    claim = press.claim()
    press.tell(claim, "one\n")
    [kept] = press.outputs.of_run(APP, claim.slot, claim.message)
    assert (kept.text, kept.is_running) == ("one\n", True)
    press.end(claim, text="one\ntwo\n")
    press.tell(claim, "late\n")
    assert press.texts() == ["one\ntwo\n"]
    assert press.weight() == press.weighed()


def test_a_silent_end_is_kept_only_where_the_run_had_been_told_of(press: Press) -> None:
    told, untold = press.claim(token="t1"), press.claim(token="t2")
    press.tell(told, "")
    for claim in (told, untold):
        press.end(claim, text="", is_silent=True)
    [kept] = press.outputs.of_handler(APP, HANDLER)
    assert (kept.message, kept.outcome) == (told.message, "succeeded")


def test_an_attempt_whose_worker_vanished_is_lost(press: Press) -> None:
    message = press.desk.enter((APP, HANDLER))
    claim = press.desk.claimed(message)
    press.tell(claim, "so far\n")
    press.desk.take_back(message, now_ms=T0_MS + LEASE_MS)
    [kept] = press.outputs.of_run(APP, claim.slot, message)
    assert (kept.text, kept.outcome) == ("so far\n", "lost")


def test_fifty_attempts_of_one_handler(press: Press) -> None:
    for number in range(60):
        press.end(press.claim(token=f"t{number}"), text=f"{number}\n", now_ms=T0_MS + number)
    press.end(press.claim("jobs.other", token="other"), text="other\n", now_ms=T0_MS + 100)
    assert press.texts() == [f"{number}\n" for number in range(10, 60)]
    assert press.texts("jobs.other") == ["other\n"]
    assert press.client.hlen(press.desk.keys.output_texts) == 52, "and the sum"
    assert press.client.zcard(press.desk.keys.output_times) == 51
    assert press.weight() == press.weighed()


def test_bytes_in_all_whoever_they_belong_to(desk: Desk) -> None:
    press = Press(desk, total_bytes=20_000)
    for number in range(30):
        press.end(press.claim(f"jobs.h{number % 3}", token=f"t{number}"), text="x" * 2000, now_ms=T0_MS + number)
        assert press.weight() == press.weighed() <= 20_000
    left = [len(press.texts(f"jobs.h{number}")) for number in range(3)]
    assert sum(left) == 7, "the newest"
    assert max(left) - min(left) <= 1
    assert press.client.zcard(desk.keys.output_times) == 7


def test_lower_bounds_take_hold_step_by_step(press: Press) -> None:
    for number in range(20):
        press.end(press.claim(token=f"t{number}"), now_ms=T0_MS + number)
    narrow = Press(press.desk, attempts=5)
    narrow.end(narrow.claim(token="last"), now_ms=T0_MS + 99)
    assert len(narrow.texts()) == 5


def test_nothing_older_than_thirty_days(press: Press) -> None:
    press.end(press.claim(token="t1"), text="old\n")
    press.end(press.claim("jobs.other", token="t2"), text="new\n", now_ms=T0_MS + 30 * DAY_MS + 10)
    assert (press.texts(), press.texts("jobs.other")) == ([], ["new\n"])
    for key in press.client.scan_iter(match="*:out:*"):
        assert 0 < press.client.pttl(key) <= 30 * DAY_MS


def test_no_attempts_is_nothing(desk: Desk) -> None:
    press = Press(desk, attempts=0)
    assert not press.outputs.are_kept
    assert press.end(press.claim()) is EndVerdict.ENDED
    assert press.client.exists(desk.keys.output_texts) == 0


def _wrong_type(press: Press) -> None:
    press.client.set(press.desk.keys.output_times, "not a ranking")


def _no_permission(press: Press) -> None:
    press.client.execute_command("ACL", "SETUSER", "default", "-hstrlen")


@pytest.mark.parametrize("harm", [_wrong_type, _no_permission])
def test_output_that_cannot_be_kept_spoils_no_end(press: Press, harm: Callable[[Press], None]) -> None:
    claim = press.claim()
    try:
        harm(press)
        assert press.end(claim) is EndVerdict.ENDED
    finally:
        press.client.execute_command("ACL", "SETUSER", "default", "+@all")
    assert [record["verdict"] for record in press.desk.history(handler=HANDLER)] == ["succeeded"]
    assert press.desk.stream.backlog() == 0


def test_runs_of_a_schedule_by_hand_lie_with_its_firings(press: Press) -> None:
    desk = press.desk
    desk.register()
    desk.publish()
    [entry] = desk.read()
    desk.route(desk.order(entry))
    claim = desk.claimed(entry.id, slot="@" + SCHEDULE)
    press.end(claim)
    [kept] = press.outputs.of_schedule(APP, SCHEDULE)
    assert (kept.schedule, kept.scheduled_at) == (SCHEDULE, "2027-01-15T08:00:00Z")
    assert press.outputs.of_run(APP, Slot.of_schedule(SCHEDULE), entry.id) == [kept]


def test_what_a_newer_version_wrote_or_a_hand_has_damaged_is_left_out(press: Press) -> None:
    claim = press.claim()
    press.end(claim)
    name = press.kept(claim).name
    for text in ('{"v":2}', "{", "[]", '{"v":1,"app":"shop"}'):
        press.client.hset(press.desk.keys.output_texts, name, text)
        assert press.texts() == []
