"""A worker that starts beside a broken or lost tree: it runs what was last good, and lets go of what was removed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support.workbench import Workbench

from relayctl.errors import BrokerUnavailable
from relayctl.worker import reconciler

NIGHTLY = 'name: tick, cron: "0 3 29 2 *"'
BROKEN = 'name: tick, cron: "61 3 * * *"'


@pytest.fixture
def before(bench: Workbench) -> Workbench:
    """A worker that has seen `a` and `b` while they were good."""
    bench.app("a", NIGHTLY)
    bench.app("b", NIGHTLY)
    bench.look()
    return bench


def restarted(before: Workbench) -> Workbench:
    """The next worker on the same state directory; it has had its first look."""
    bench = Workbench(before.client, before.root, worker="w2")
    bench.reconciler.step()
    return bench


def test_beside_a_broken_template_the_app_runs_as_it_was_last_good(before: Workbench) -> None:
    before.app("a", BROKEN)
    bench = restarted(before)
    assert bench.reconciler.snapshot.live == before.reconciler.snapshot.live
    [told] = bench.told("app-broken")
    assert (told.app, told.has_last_good) == ("a", True)
    assert bench.gen("a") == 1
    assert bench.reconciler.unread == frozenset()
    before.app("a", NIGHTLY)
    bench.look()
    assert bench.told("app-loaded")[-1].was_broken
    assert (bench.gen("a"), len(bench.swaps)) == (1, 1), "the same again is nothing to deploy"
    before.app("a", NIGHTLY.replace("0 3", "1 3"))
    bench.look()
    assert bench.gen("a") == 2


def test_code_that_changed_meanwhile_is_another_revision(before: Workbench) -> None:
    before.app("a", BROKEN)
    (before.root / "a" / "jobs.py").write_text("def run(event): ...\ndef on(event): ...\n")
    bench = restarted(before)
    assert bench.reconciler.snapshot.live["a"].revision != before.reconciler.snapshot.live["a"].revision
    assert bench.reconciler.snapshot.live["a"].app == before.reconciler.snapshot.live["a"].app


def test_an_app_that_was_never_good_here_does_not_run_and_is_not_known(before: Workbench) -> None:
    before.app("c", BROKEN)
    bench = restarted(before)
    assert set(bench.reconciler.snapshot.live) == {"a", "b"}
    assert not bench.told("app-broken")[0].has_last_good
    assert bench.reconciler.unread == {"c"}
    before.app("c", NIGHTLY)
    bench.look()
    assert bench.reconciler.unread == frozenset()


def test_what_is_kept_is_no_evidence_against_a_newer_definition(before: Workbench) -> None:
    peer = Workbench(before.client, before.root.parent / "peer" / "apps", worker="w3")
    peer.app("a", NIGHTLY.replace("0 3", "5 3"))
    peer.look()
    head = before.head("a")
    assert head["gen"] == "2"
    before.fleet.leave("w1")
    before.fleet.leave("w3")
    before.app("a", BROKEN)
    bench = restarted(before)
    for _ in range(10):
        bench.look(after_s=10)
    assert bench.head("a")["hash"] == head["hash"]
    before.app("a", NIGHTLY)
    for _ in range(5):
        bench.look(after_s=10)
    assert bench.gen("a") == 3, "what its files say counts again"


def test_a_lost_root_of_which_nothing_is_kept_runs_nothing(before: Workbench) -> None:
    bench = Workbench(before.client, before.root.with_name("elsewhere"), worker="w2")
    bench.root.rmdir()
    bench.reconciler.step()
    assert bench.reconciler.snapshot.live == {}
    [lost] = bench.told("source-lost")
    assert (lost.running, lost.is_last_good) == (0, False)
    assert bench.reconciler.has_looked


def test_a_root_that_comes_back_is_compared_with_what_ran(before: Workbench) -> None:
    away = before.root.with_name("away")
    bench = Workbench(before.client, before.root, worker="w2")
    before.root.rename(away)
    bench.reconciler.step()
    assert set(bench.reconciler.snapshot.live) == {"a", "b"}
    [lost] = bench.told("source-lost")
    assert (lost.running, lost.is_last_good) == (2, True)
    assert bench.reconciler.unread is None
    assert (bench.gen("a"), bench.gen("b")) == (1, 1)
    # It comes back in parts: that removes nothing at once.
    before.root.mkdir()
    (away / "a").rename(before.root / "a")
    bench.look()
    assert set(bench.reconciler.snapshot.live) == {"a", "b"}
    assert bench.swaps[-1].deployed.keys() == {"a"}, "its code is there only now"
    (away / "b").rename(before.root / "b")
    bench.settle()
    assert bench.swaps[-1].deployed.keys() == {"b"}
    assert bench.told("app-removed") == []
    assert bench.reconciler.unread == frozenset()


def test_an_app_whose_removal_is_in_force_is_not_brought_back(before: Workbench) -> None:
    before.remove("a")
    before.look()
    assert before.reconciler._revival.everything().keys() == {"a", "b"}
    before.settle()
    assert before.reconciler._revival.everything().keys() == {"b"}
    before.app("a", BROKEN)
    bench = restarted(before)
    assert set(bench.reconciler.snapshot.live) == {"b"}


def test_a_removal_that_waits_for_consent_forgets_nothing(before: Workbench) -> None:
    before.remove("a")
    before.remove("b")
    before.settle()
    assert before.reconciler.held_removal
    assert before.reconciler._revival.everything().keys() == {"a", "b"}


def test_what_left_while_nobody_looked_is_forgotten_after_a_while(before: Workbench) -> None:
    before.remove("a")
    bench = restarted(before)
    for _ in range(2):
        bench.look(after_s=31)
    assert bench.reconciler._revival.everything().keys() == {"a", "b"}
    for _ in range(4):
        bench.look(after_s=40)
    assert bench.reconciler._revival.everything().keys() == {"b"}


def test_what_is_in_force_is_kept_though_the_broker_is_away(before: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise BrokerUnavailable("the broker is away")

    monkeypatch.setattr(before.registrar, "propose", refuse)
    before.app("a", NIGHTLY.replace("0 3", "7 3"))
    before.reconciler.hint(None)
    with pytest.raises(BrokerUnavailable):
        before.reconciler.step()
    monkeypatch.undo()
    before.app("a", BROKEN)
    bench = restarted(before)
    [schedule] = bench.reconciler.snapshot.live["a"].app.schedules
    assert "7 3" in schedule.trigger.words


def test_a_first_look_that_fails_does_not_lose_it(before: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    before.app("a", BROKEN)
    bench = Workbench(before.client, before.root, worker="w2")
    kept = bench.reconciler._put_in_force

    def failing(*_: object) -> None:
        raise BrokerUnavailable("the broker is away")

    monkeypatch.setattr(bench.reconciler, "_put_in_force", failing)
    with pytest.raises(BrokerUnavailable):
        bench.reconciler.step()
    assert not bench.reconciler.has_looked
    monkeypatch.setattr(bench.reconciler, "_put_in_force", kept)
    bench.reconciler.hint(None)
    bench.clock.advance(timedelta(seconds=reconciler.QUIET_S))
    bench.reconciler.step()
    assert set(bench.reconciler.snapshot.live) == {"a", "b"}
    assert bench.reconciler.has_looked


def test_a_root_that_is_empty_at_the_start_counts_as_lost(before: Workbench) -> None:
    away = before.root.with_name("away")
    before.root.rename(away)
    before.root.mkdir()
    bench = restarted(before)
    assert bench.reconciler.snapshot.live.keys() == {"a", "b"}
    [lost] = bench.told("source-lost")
    assert (lost.running, lost.is_last_good) == (2, True)
    assert f"--accept-removals {bench.reconciler.held_removal}" in lost.reason
    for _ in range(5):
        bench.look(after_s=60)
    assert bench.reconciler.is_source_lost
    assert (bench.gen("a"), bench.gen("b")) == (1, 1)
    assert len(bench.told("source-lost")) == 1
    for name in ("a", "b"):
        (away / name).rename(before.root / name)
    bench.settle()
    assert not bench.reconciler.is_source_lost
    assert bench.reconciler.held_removal == ""
    assert bench.told("app-removed") == []


def test_an_intended_end_of_all_apps_needs_consent_after_a_start_too(before: Workbench) -> None:
    before.remove("a")
    before.remove("b")
    bench = restarted(before)
    held = bench.reconciler.held_removal
    assert held
    bench.fleet.consent(held)
    bench.look(after_s=2)
    bench.look()
    assert bench.reconciler.snapshot.live == {}
    assert {fact.app for fact in bench.told("app-removed")} == {"a", "b"}
    assert not bench.reconciler.is_source_lost
    assert bench.reconciler.held_removal == ""
    assert restarted(bench).told("source-lost") == []


def test_an_empty_root_beside_which_nothing_ran_is_no_loss(bench: Workbench) -> None:
    bench.look()
    assert bench.told("source-lost") == []
    assert bench.reconciler.has_looked
