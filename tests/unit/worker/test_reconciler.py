"""From the tree to what is live: what goes at once, what waits for quiet, what waits for consent, what is kept."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import pytest
from support.workbench import Workbench

from relayctl.errors import BrokerUnavailable
from relayctl.sources.source import View

NIGHTLY = 'name: tick, cron: "0 3 29 2 *"'


def test_additions_go_live_at_once_and_removals_when_it_is_quiet(bench: Workbench) -> None:
    for name in ("a", "b", "c"):
        bench.app(name, NIGHTLY)
    bench.look()
    assert set(bench.reconciler.snapshot.live) == {"a", "b", "c"}
    bench.remove("a")
    bench.app("d", NIGHTLY)
    bench.look(after_s=1)
    assert set(bench.reconciler.snapshot.live) == {"a", "b", "c", "d"}
    bench.look(after_s=1.9)
    assert "a" in bench.reconciler.snapshot.live
    bench.look(after_s=0.2)
    assert set(bench.reconciler.snapshot.live) == {"b", "c", "d"}
    assert bench.head("a")["hash"] == "tombstone"
    assert [fact.app for fact in bench.told("app-removed")] == ["a"]


def test_a_broken_app_is_told_once_for_each_version_and_its_last_good_one_stays(bench: Workbench) -> None:
    bench.app("a", NIGHTLY)
    bench.app("b", NIGHTLY)
    bench.look()
    for minute in (61, 62):
        bench.app("a", f'name: tick, cron: "{minute} 3 * * *"')
        bench.settle()
        bench.look(after_s=30)
    assert [fact.app for fact in bench.told("app-broken")] == ["a", "a"]
    assert bench.told("app-broken")[0].has_last_good
    assert (bench.gen("a"), len(bench.swaps)) == (1, 1)
    bench.app("a", NIGHTLY)
    bench.look()
    assert bench.told("app-loaded")[-1].was_broken
    assert (bench.gen("a"), len(bench.swaps)) == (1, 1)


def test_only_what_was_edited_is_touched(bench: Workbench) -> None:
    for name in ("a", "b", "c"):
        bench.app(name, *(f'name: s{number}, cron: "{number} 3 29 2 *"' for number in range(10)))
    bench.look()
    stamps = {job.name: job.stamp for job in bench.scheduler._agenda}
    edited = ("b", "s4")
    bench.app("b", *(f'name: s{number}, cron: "{number + 20 * (number == 4)} 3 29 2 *"' for number in range(10)))
    bench.look()
    changed = {job.name for job in bench.scheduler._agenda if job.stamp != stamps[job.name]}
    assert changed == {edited}
    assert [set(changes.deployed) for changes in bench.swaps] == [{"a", "b", "c"}, {"b"}]
    assert [bench.gen("b", f"s{number}") for number in range(3, 6)] == [1, 2, 1]


def test_a_source_that_never_gave_anything_is_awaited_and_not_lost(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.app("a", NIGHTLY)
    with monkeypatch.context() as patched:
        nothing = View(trouble="no release has been published yet", is_awaited=True)
        patched.setattr(bench.reconciler._source, "look", lambda _touched: nothing)
        bench.look()
        bench.look(after_s=1)
        assert bench.reconciler.is_source_lost, "what it lacks would count as removed"
    bench.look()
    assert set(bench.reconciler.snapshot.live) == {"a"}
    assert len(bench.told("release-awaited")) == 1
    assert bench.told("source-lost") + bench.told("source-back") == []


def test_a_tree_that_cannot_be_read_says_nothing_about_removals(bench: Workbench) -> None:
    bench.app("a", NIGHTLY)
    bench.look()
    away = bench.root.with_name("away")
    bench.root.rename(away)
    bench.settle()
    bench.look(after_s=60)
    assert set(bench.reconciler.snapshot.live) == {"a"}
    assert len(bench.told("source-lost")) == 1
    away.rename(bench.root)
    bench.look()
    assert len(bench.told("source-back")) == 1
    assert bench.head("a")["hash"] != "tombstone"


def test_few_removals_need_no_consent_and_many_do(bench: Workbench) -> None:
    for number in range(20):
        bench.app(f"a{number}", NIGHTLY)
    bench.look()
    for number in range(5):
        bench.remove(f"a{number}")
    bench.settle()
    assert len(bench.reconciler.snapshot.live) == 15
    for number in range(5, 11):
        bench.remove(f"a{number}")
    bench.settle()
    assert len(bench.reconciler.snapshot.live) == 15
    [fact] = bench.told("removal-held")
    assert (fact.removed, fact.total) == (6, 15)
    assert bench.reconciler.held_removal == fact.revision
    bench.fleet.consent(fact.revision)
    bench.clock.advance(timedelta(seconds=3))
    bench.reconciler.step()  # notices the consent
    bench.reconciler.step()
    assert len(bench.reconciler.snapshot.live) == 9
    assert bench.reconciler.held_removal == ""


def test_removals_that_are_taken_back_are_held_no_more(bench: Workbench) -> None:
    bench.app("a", NIGHTLY)
    bench.look()
    template = bench.root / "a"
    template.rename(bench.root.with_name("aside"))
    bench.settle()
    assert bench.reconciler.held_removal
    bench.root.with_name("aside").rename(template)
    bench.look()
    assert bench.reconciler.held_removal == ""
    assert bench.told("app-removed") == []


def test_a_failed_pass_forgets_nothing(bench: Workbench) -> None:
    bench.app("a", NIGHTLY)
    bench.look()
    bench.app("a", 'name: tick, cron: "1 3 29 2 *"')
    whole = bench.root / "a" / "template.yaml"
    bench.reconciler.hint({"a"})
    look = bench.reconciler._source.look

    def failing(_touched: object) -> object:
        raise OSError("the disk hiccups")

    bench.reconciler._source.look = failing  # type: ignore[method-assign,assignment]
    import threading

    stop = threading.Event()
    emit = bench.facts.append

    def once(fact: object) -> None:
        emit(fact)  # type: ignore[arg-type]
        stop.set()

    bench.reconciler._emit = once  # type: ignore[assignment]
    bench.reconciler.wake()
    bench.reconciler.run(stop)
    bench.reconciler._emit = emit  # type: ignore[assignment]
    bench.reconciler._source.look = look  # type: ignore[method-assign]
    assert whole.exists()
    bench.reconciler.step()
    assert bench.gen("a") == 2


def test_a_broken_app_that_vanished_is_news_when_it_comes_back(bench: Workbench) -> None:
    bench.app("a", NIGHTLY)
    folder = bench.root / "never"

    def broken() -> None:
        folder.mkdir()
        (folder / "template.yaml").write_text("runtime: python\nschedules: []\n")

    broken()
    bench.settle()
    assert len(bench.told("app-broken")) == 1
    bench.settle()
    assert len(bench.told("app-broken")) == 1
    bench.remove("never")
    bench.settle()
    broken()
    bench.settle()
    assert len(bench.told("app-broken")) == 2


def test_a_refusal_by_a_server_that_has_just_lost_everything_waits_for_the_next_heartbeat(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.app("a", NIGHTLY)
    bench.look()
    bench.look(after_s=6)
    asked = []
    monkeypatch.setattr(bench.rescue.keeper, "is_same", lambda: asked.append(1))
    bench.reconciler.refresh([("a", "tick")])
    bench.reconciler._hints._bell.clear()
    bench.reconciler.step()
    assert (len(asked), bench.reconciler._hints._bell.is_set()) == (1, False), "it would ask without a pause"
    monkeypatch.undo()
    bench.look()
    assert bench.reconciler._hints._superseded == set(), "and it is not forgotten"


def test_what_was_superseded_is_asked_for_again_where_the_broker_was_away(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.app("a", NIGHTLY)
    bench.look()
    bench.look(after_s=6)
    refresh, asked = bench.registrar.refresh, []

    def answer(names: Iterable[tuple[str, str]], *, is_disputed: bool = False) -> None:
        asked.append((set(names), is_disputed))
        if len(asked) == 1:
            raise BrokerUnavailable
        refresh(names, is_disputed=is_disputed)

    monkeypatch.setattr(bench.registrar, "refresh", answer)
    bench.reconciler.refresh([("a", "tick")])
    with pytest.raises(BrokerUnavailable):
        bench.reconciler.step()
    bench.reconciler.step()
    bench.reconciler.step()
    assert [each for each in asked if each[1]] == [({("a", "tick")}, True)] * 2
