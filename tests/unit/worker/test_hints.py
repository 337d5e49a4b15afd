"""Hints that several threads give: none is lost, anything anywhere outweighs single apps, and only news rings."""

from __future__ import annotations

from datetime import UTC, datetime

from relayctl.host.clock import SystemClock
from relayctl.worker.hints import Hints


def _rings(hints: Hints) -> bool:
    return hints._bell.is_set()


def test_hints_add_up_until_they_are_taken() -> None:
    hints = Hints()
    hints.touched(["a"])
    hints.touched(["b"])
    assert hints.take_touched() == {"a", "b"}
    assert hints.take_touched() == set()


def test_anywhere_outweighs_single_apps_whatever_comes_first() -> None:
    for order in ([["a"], None], [None, ["a"]]):
        hints = Hints()
        for apps in order:
            hints.touched(apps)
        assert hints.take_touched() is None
    hints.touched(["a"])
    hints.lose_track()
    assert hints.take_touched() is None


def test_what_is_put_back_is_kept_and_hurries_nobody() -> None:
    hints = Hints()
    hints.superseded([("a", "tick")])
    assert _rings(hints)
    hints.wait(SystemClock(), 60)
    assert not _rings(hints)
    taken = hints.take_superseded()
    hints.put_back(taken)
    assert not _rings(hints)
    assert hints.take_superseded() == {("a", "tick")}


def test_a_wait_ends_with_a_ring_that_came_before_it() -> None:
    hints, began = Hints(), datetime.now(UTC)
    hints.ring()
    hints.wait(SystemClock(), 60)
    assert (datetime.now(UTC) - began).total_seconds() < 30
