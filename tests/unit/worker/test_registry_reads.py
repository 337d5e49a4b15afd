"""How often the reconciler reads the registry: when something changed, and now and then the whole of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.workbench import Workbench, every, generation

from relayctl.store.definitions import Mode, Proposal
from relayctl.worker.unheld import ADOPT_AFTER_S
from relayctl.worker.unowned import Unowned

if TYPE_CHECKING:
    from collections.abc import Sequence

NIGHTLY = 'name: tick, cron: "0 3 29 2 *"'
MADE = generation(every(7), 0)


def proposals(names: Sequence[str]) -> list[Proposal]:
    return [Proposal(app="other", schedule=name, mode=Mode.START, hash=MADE.hash, spec=MADE.spec) for name in names]


@pytest.fixture
def beside_many(bench: Workbench) -> Workbench:
    """A worker with one schedule, beside a peer with a hundred that it does not have."""
    names = [f"s{number}" for number in range(100)]
    bench.definitions.register(proposals(names))
    bench.peer("w2", {f"other/{name}": MADE.hash for name in names}, apps=["other"])
    bench.app("app", NIGHTLY)
    bench.look()
    bench.look()
    return bench


def keep_house(bench: Workbench, passes: int) -> dict[str, int]:
    """So many passes of the reconciler without a look at the tree; the calls of each command that they made."""
    bench.client.config_resetstat()
    for _ in range(passes):
        bench.reconciler._look_at = float("inf")
        bench.reconciler._house_at = 0.0
        bench.reconciler.step()
    stats = bench.client.info("commandstats")
    return {name.removeprefix("cmdstat_"): each["calls"] for name, each in stats.items()}


def test_a_registry_that_stands_still_is_not_read_again(beside_many: Workbench) -> None:
    calls = keep_house(beside_many, 30)
    assert calls.get("smembers", 0) == 0
    assert calls.get("hmget", 0) == 0


def test_one_change_costs_one_head(beside_many: Workbench) -> None:
    beside_many.definitions.register(proposals(["new"]))
    beside_many.tick()
    assert keep_house(beside_many, 5).get("hmget", 0) == 1
    assert ("other", "new") in beside_many.registrar._unowned.heads(())


def test_a_periodic_look_reads_all_of_it(beside_many: Workbench) -> None:
    beside_many.client.config_resetstat()
    beside_many.reconciler._look_at = 0.0
    beside_many.reconciler._house_at = 0.0
    beside_many.reconciler.step()
    assert beside_many.client.info("commandstats")["cmdstat_smembers"]["calls"] == 1


def test_an_orphan_whose_registration_nobody_heard_of_is_found_by_the_periodic_look(bench: Workbench) -> None:
    bench.app("app", NIGHTLY)
    bench.look()
    bench.look()
    bench.definitions.register(proposals(["lost"]))
    # As if the change had been passed over.
    bench.registrar._seq = bench.definitions.seq()
    bench.look(after_s=35)
    bench.fleet.consent(bench.reconciler.revision)
    bench.look(after_s=ADOPT_AFTER_S + 5)
    assert bench.head("other", "lost")["hash"] == "tombstone"


def test_what_left_the_own_files_is_read_and_what_was_removed_is_gone(bench: Workbench) -> None:
    bench.definitions.register(proposals(["a", "b"]))
    unowned = Unowned(bench.definitions)
    assert unowned.heads({("other", "a")}).keys() == {("other", "b")}
    unowned.changed([("other", "a")])
    assert unowned.heads(()).keys() == {("other", "a"), ("other", "b")}
    bench.definitions.register(
        [Proposal(app="other", schedule="a", mode=Mode.ADOPT, hash="tombstone", spec="", held_gen=1)]
    )
    assert unowned.heads(()).keys() == {("other", "a"), ("other", "b")}, "it was told of no change"
    unowned.changed([("other", "a")])
    assert unowned.heads(()).keys() == {("other", "b")}
