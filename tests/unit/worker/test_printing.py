"""When output is told of and what goes with an end: asked for once a second, sent again until the broker has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.storedesk import descriptor

from relayctl.core.lifecycle import Claim, Slot
from relayctl.errors import BrokerUnavailable
from relayctl.runners.invocation import Ended, Outcome, Run, Telling
from relayctl.runners.output import Tail
from relayctl.worker.ledger import Finished, Printed
from relayctl.worker.printing import MOST_AT_ONCE, Printing

if TYPE_CHECKING:
    from relayctl.core.output import KeptOutput

CLAIM = Claim(
    message="1790676000250-0",
    app="shop",
    slot=Slot("jobs.on"),
    token="t.1",
    attempt=1,
    descriptor=descriptor(schedule=None, handler="jobs.on"),
    event="{}",
)


class Press:
    """Stands where executor and broker stand."""

    def __init__(self) -> None:
        self.are_kept = True
        self.asked = 0
        self.gathered: list[Printed] = []
        self.sent: list[list[str]] = []
        self.is_away = False

    def gather_output(self) -> None:
        self.asked += 1

    def take_printed(self, most: int) -> list[Printed]:
        taken, self.gathered = self.gathered[:most], self.gathered[most:]
        return taken

    def keep(self, running: list[tuple[Claim, KeptOutput]]) -> None:
        if self.is_away:
            raise BrokerUnavailable("away")
        self.sent.append([kept.text for _, kept in running])


def printed(text: bytes) -> Printed:
    return Printed(CLAIM, Telling(CLAIM.key, 1.0, len(text), Tail(text, text.count(b"\n"), False)), 1_790_676_000_400)


@pytest.fixture
def press() -> Press:
    return Press()


@pytest.fixture
def printing(press: Press) -> Printing:
    either: Any = press
    return Printing(either, either, "w1")


def test_asked_for_once_a_second(press: Press, printing: Printing) -> None:
    for tenth in range(21):
        printing.step(100 + tenth / 10)
    assert press.asked == 3
    press.are_kept = False
    printing.step(200)
    assert press.asked == 3


def test_what_the_broker_did_not_take_is_sent_again_before_anything_newer(press: Press, printing: Printing) -> None:
    press.gathered, press.is_away = [printed(b"one\n")], True
    printing.step(1)
    press.gathered = [printed(b"one\ntwo\n")]
    printing.step(2)
    press.is_away = False
    for now in (3, 4, 5):
        printing.step(now)
    assert press.sent == [["one\n"], ["one\ntwo\n"]]


def test_a_pass_is_bounded(press: Press, printing: Printing) -> None:
    press.gathered = [printed(b"x\n")] * (MOST_AT_ONCE + 1)
    printing.step(1)
    printing.step(2)
    assert [len(batch) for batch in press.sent] == [MOST_AT_ONCE, 1]


def finished(outcome: Outcome, output: bytes = b"", *, took_s: float = 0.1, started: bool = True) -> Finished:
    run = Run(key=CLAIM.key, app="shop", handler="jobs.on", stdin=b"", variables={}, timeout_s=6, label="l")
    ended = Ended(
        run=run,
        outcome=outcome,
        reason="" if outcome is Outcome.SUCCEEDED else "a reason",
        started_at=1.0,
        finished_at=1.0 + took_s,
        output=Tail(output, output.count(b"\n"), False),
        output_bytes=len(output),
        started=started,
    )
    return Finished(CLAIM, ended, 1_000, 1_000 + int(took_s * 1000))


@pytest.mark.parametrize(
    ("item", "outcome", "expected"),
    [
        (finished(Outcome.SUCCEEDED, b"hello\n"), "succeeded", ("succeeded", "hello\n")),
        (finished(Outcome.SUCCEEDED), "succeeded", None),
        (finished(Outcome.SUCCEEDED, took_s=5), "succeeded", ("succeeded", "")),
        (finished(Outcome.TIMEOUT), "failed", ("failed", "")),
        (finished(Outcome.FAILED, started=False), "failed", ("failed", "")),
        (finished(Outcome.INTERRUPTED, b"half"), "released", ("interrupted", "half")),
        (finished(Outcome.INTERRUPTED, started=False), "released", None),
        (finished(Outcome.REFUSED, started=False), "released", None),
    ],
)
def test_what_goes_with_an_end(
    press: Press, printing: Printing, item: Finished, outcome: str, expected: tuple[str, str] | None
) -> None:
    kept = printing.at_end(item, outcome, "0")
    assert (None if kept is None else (kept.outcome, kept.text)) == expected
    assert kept is None or (kept.worker, kept.started_ms, kept.name) == ("w1", 1_000, CLAIM.key)
    press.are_kept = False
    assert printing.at_end(item, outcome, "0") is None
