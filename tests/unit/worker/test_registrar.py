"""Keeping the registry and the files in step: who is behind, who may take over, what is an orphan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.broker import await_fact
from support.workbench import Workbench, every, generation

from relayctl.core.occurrence import epoch_seconds
from relayctl.errors import BrokerUnavailable
from relayctl.store.controls import Controls
from relayctl.store.definitions import Mode, Proposal
from relayctl.worker.unheld import ADOPT_AFTER_S

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NAME = ("app", "tick")


def newer(bench: Workbench, seconds: int = 2) -> str:
    """A peer deploys another definition; its hash."""
    made = generation(every(seconds), 0)
    proposal = Proposal(app="app", schedule="tick", mode=Mode.START, hash=made.hash, spec=made.spec)
    bench.definitions.register([proposal])
    return made.hash


def test_a_superseded_worker_fires_the_heads_definition(bench: Workbench) -> None:
    bench.app("app", "name: tick, every: 1s")
    bench.look()
    newer(bench)
    bench.look()
    assert set(bench.registrar.behind) == {NAME}
    assert bench.reconciler.drift == 1
    [fact] = bench.told("schedule-behind")
    assert fact.reason == "the fleet runs a newer definition"
    at = bench.scheduler.armed()[NAME]
    assert at is not None
    assert at % 2 == 0


def test_it_takes_over_thirty_seconds_after_the_last_holder_and_not_before(bench: Workbench) -> None:
    bench.app("app", "name: tick, every: 1s")
    bench.look()
    held = newer(bench)
    bench.peer("w2", {"app/tick": held})
    bench.look(after_s=2)
    bench.look(after_s=ADOPT_AFTER_S + 5)
    assert bench.gen() == 2
    bench.fleet.leave("w2")
    bench.look(after_s=2)
    bench.look(after_s=ADOPT_AFTER_S - 5)
    assert bench.gen() == 2
    bench.look(after_s=6)
    assert bench.gen() == 3
    assert bench.registrar.behind == {}
    bench.look(after_s=ADOPT_AFTER_S * 2)
    assert bench.gen() == 3


def test_a_live_edit_back_to_old_content_is_a_revert(bench: Workbench) -> None:
    bench.app("app", "name: tick, every: 1s")
    bench.look()
    bench.app("app", "name: tick, every: 2s")
    bench.look()
    bench.app("app", "name: tick, every: 1s")
    bench.look()
    assert bench.gen() == 3
    assert bench.registrar.behind == {}


def test_a_slow_checkout_does_not_drag_the_fleet_back(bench: Workbench, tmp_path: Path) -> None:
    slow = Workbench(bench.client, tmp_path / "slow", worker="w2")
    for each in (bench, slow):
        each.app("app", "name: tick, every: 1s")
        each.look()
    for seconds in (2, 3):
        bench.app("app", f"name: tick, every: {seconds}s")
        bench.look()
    assert bench.gen() == 3
    slow.app("app", "name: tick, every: 2s")
    slow.look()
    assert bench.gen() == 3
    assert set(slow.registrar.behind) == {NAME}
    slow.app("app", "name: tick, every: 3s")
    slow.look()
    assert (bench.gen(), slow.registrar.behind) == (3, {})


def test_an_edit_that_moves_no_firing_makes_no_generation(bench: Workbench) -> None:
    bench.app("app", "name: tick, every: 60s, timeout: 5s", "name: other, every: 60s")
    bench.look()
    stamps = {job.name: job.stamp for job in bench.scheduler._agenda}
    bench.app("app", "name: tick, every: 1m, timeout: 9s, retries: 1", "name: other, every: 60s")
    bench.look()
    assert {job.name: job.stamp for job in bench.scheduler._agenda} == stamps
    assert bench.gen() == 1
    assert len(bench.swaps) == 2


def test_a_removed_schedule_is_not_brought_back_while_a_peer_lacks_it(bench: Workbench) -> None:
    bench.app("app", "name: tick, every: 1s", "name: other, every: 1s")
    bench.look()
    bench.definitions.register(
        [Proposal(app="app", schedule="tick", mode=Mode.EDIT, hash="tombstone", spec="", held_gen=1)]
    )
    bench.peer("w2", {"app/other": "x"})
    bench.look(after_s=2)
    bench.look(after_s=ADOPT_AFTER_S + 5)
    assert (bench.gen(), bench.head()["hash"]) == (2, "tombstone")
    bench.fleet.leave("w2")
    bench.look(after_s=2)
    bench.look(after_s=ADOPT_AFTER_S + 5)
    assert (bench.gen(), bench.head()["hash"] != "tombstone") == (3, True)


def test_a_worker_for_other_apps_holds_no_removal(bench: Workbench) -> None:
    bench.app("app", "name: tick, every: 1s")
    bench.look()
    bench.definitions.register(
        [Proposal(app="app", schedule="tick", mode=Mode.EDIT, hash="tombstone", spec="", held_gen=1)]
    )
    bench.peer("w2", {}, apps=["elsewhere"], is_partial=True)
    bench.look(after_s=2)
    bench.look(after_s=ADOPT_AFTER_S + 5)
    assert bench.gen() == 3


def test_orphans_are_removed_when_nobody_held_them_for_long(bench: Workbench) -> None:
    bench.app("app", *(f"name: s{number}, every: 60s" for number in range(9)))
    newer(bench)
    bench.look()
    bench.look(after_s=ADOPT_AFTER_S - 2)
    assert bench.head()["hash"] != "tombstone"
    bench.look(after_s=4)
    assert bench.head()["hash"] == "tombstone"


def test_too_many_orphans_wait_for_consent(bench: Workbench) -> None:
    bench.app("app", "name: mine, every: 60s")
    for number in range(8):
        made = generation(every(60, f"s{number}"), 0)
        bench.definitions.register(
            [Proposal(app="gone", schedule=f"s{number}", mode=Mode.START, hash=made.hash, spec=made.spec)]
        )
    bench.look()
    bench.look(after_s=ADOPT_AFTER_S + 2)
    bench.look(after_s=3)
    [fact] = bench.told("removal-held")
    assert (fact.removed, fact.total) == (8, 9)
    assert bench.head("gone", "s0")["hash"] != "tombstone"
    bench.fleet.consent(fact.revision)
    bench.look(after_s=3)
    assert bench.head("gone", "s0")["hash"] == "tombstone"


def test_a_flushed_registry_is_told_what_it_was(bench: Workbench) -> None:
    bench.app("app", "name: tick, every: 1s")
    bench.look()
    bench.app("app", "name: tick, every: 2s")
    bench.look()
    assert bench.gen() == 2
    bench.tick()
    before, since = set(bench.published()), bench.head()["from"]
    bench.client.flushall()
    bench.look(after_s=2)
    assert bench.published() == []
    bench.look(after_s=5)
    assert (bench.gen(), bench.head()["from"]) == (2, since)
    bench.tick()
    assert before.isdisjoint(bench.published())
    assert [fact.restored for fact in bench.told("state-restored")] == [1]
    assert bench.told("state-lost") == []


def test_the_end_of_a_pause_of_a_removed_schedule_is_looked_at_once(bench: Workbench) -> None:
    bench.app("app", "name: tick, every: 1s", "name: other, every: 60s")
    bench.look()
    now = bench.now()
    bench.client.hset(bench.keys.schedule("app", "tick"), mapping={"paused": now - 100, "paused_until": now - 50})
    bench.registrar.withdraw([NAME])
    assert bench.registrar.heads[NAME].paused_until == now - 50
    bench.registrar.end_pauses(bench.now() * 1000)
    assert NAME not in bench.registrar.heads
    assert "paused" not in bench.head()


def test_each_act_of_an_operator_is_told_by_one_worker(bench: Workbench, tmp_path: Path) -> None:
    other = Workbench(bench.client, tmp_path / "other", worker="w2")
    for each in (bench, other):
        each.app("app", "name: tick, every: 60s")
        each.look()
    controls = Controls(bench.client, bench.keys)
    controls.pause("app", "tick", until=None, by="ann@host", reason="repair")
    for each in (bench, other):
        each.look()
    controls.resume("app", "tick", by="bob@host")
    for each in (other, bench):
        each.look()
    told = [[(fact.action, fact.by, fact.reason) for fact in each.told("control-used")] for each in (bench, other)]
    assert told == [[("pause", "ann@host", "repair")], [("resume", "bob@host", "")]]


def test_an_act_is_told_by_a_worker_that_starts_later(bench: Workbench, tmp_path: Path) -> None:
    bench.app("app", "name: tick, every: 60s")
    bench.look()
    Controls(bench.client, bench.keys).pause("app", "tick", until=None, by="ann@host", reason="")
    later = Workbench(bench.client, tmp_path / "later", worker="w2")
    later.app("app", "name: tick, every: 60s")
    later.look()
    later.look()
    assert [(fact.action, fact.by) for fact in later.told("control-used")] == [("pause", "ann@host")]


def test_held_orphans_show_as_held_until_they_are_agreed_to(bench: Workbench) -> None:
    bench.app("app", "name: mine, every: 60s")
    for number in range(8):
        made = generation(every(60, f"s{number}"), 0)
        bench.definitions.register(
            [Proposal(app="gone", schedule=f"s{number}", mode=Mode.START, hash=made.hash, spec=made.spec)]
        )
    bench.look()
    assert (bench.reconciler.held_removal, bench.reconciler.notes) == ("", ())
    bench.look(after_s=ADOPT_AFTER_S + 2)
    revision = bench.reconciler.held_removal
    assert revision == bench.reconciler.revision
    assert f"--accept-removals {revision}" in bench.reconciler.notes[0]
    bench.fleet.consent(revision)
    bench.look(after_s=3)
    assert bench.reconciler.held_removal == ""


def forgotten_after(bench: Workbench) -> int:
    """Up to when `tick` had fired, seconds before a broker came that knows nothing, and nobody who would tell it."""
    bench.app("app", "name: tick, every: 1s")
    bench.look()

    def cursor() -> int:
        bench.tick()
        return bench.scheduler.cursors()["app", "tick"]

    await_fact(lambda: cursor() > 0, "nothing fires", within_s=5)
    before = cursor()
    bench.reconciler._keeper = None
    bench.client.flushall()
    await_fact(lambda: bench.now() >= before + 2, "time stands still", within_s=5)
    return before


@pytest.mark.parametrize("is_done", [False, True], ids=["nothing-done", "reply-lost"])
def test_a_gap_is_on_record_although_the_registration_failed_first(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    before = forgotten_after(bench)
    register = bench.definitions.register

    def failing(proposals: Sequence[Proposal]) -> None:
        if is_done:
            register(proposals)
        raise BrokerUnavailable("the connection broke")

    with monkeypatch.context() as patch:
        patch.setattr(bench.definitions, "register", failing)
        with pytest.raises(BrokerUnavailable):
            bench.look(after_s=2)
    bench.look(after_s=2)
    bench.look(after_s=2)
    [missed] = bench.told("missed")
    assert (epoch_seconds(missed.first_at), missed.reason) == (before + 1, "state lost")
    assert [fact.schedules for fact in bench.told("state-lost")] == [("app/tick",)]


def test_a_schedule_that_nobody_remembers_has_its_gap_on_record(bench: Workbench) -> None:
    before = forgotten_after(bench)
    bench.look(after_s=2)
    bench.look(after_s=2)
    assert [fact.schedules for fact in bench.told("state-lost")] == [("app/tick",)]
    [fact] = bench.told("missed")
    since = int(bench.head()["from"])
    assert (epoch_seconds(fact.first_at), fact.reason) == (before + 1, "state lost")
    assert fact.count == epoch_seconds(fact.last_at) - before
    assert epoch_seconds(fact.last_at) * 1000 < since <= (epoch_seconds(fact.last_at) + 1) * 1000
    [record] = [
        fields for _, fields in bench.client.xrange(bench.keys.history_of_schedule("app", "tick")) if "from" in fields
    ]
    assert (record["verdict"], record["reason"], int(record["count"])) == ("missed", "state lost", fact.count)
    bench.look(after_s=2)
    assert len(bench.told("missed")) == 1
