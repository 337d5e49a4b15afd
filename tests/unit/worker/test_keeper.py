"""Checkpoints of a worker that stops, or whose file knows schedules of others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from relayctl.errors import BrokerUnavailable
from relayctl.worker.keeper import SWEEP_EVERY_S

if TYPE_CHECKING:
    from support.workbench import Workbench


def test_a_worker_that_stops_while_the_broker_is_away_keeps_its_checkpoints(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.app("app", "name: tick, every: 60s")
    bench.look()
    bench.look(after_s=6)
    keeper, outbox = bench.rescue.keeper, bench.rescue.outbox
    keeper.keep_in_time()
    [mine] = outbox.checkpoints()
    outbox.keep("another", [replace(mine, schedule="other")])
    bench.look(after_s=SWEEP_EVERY_S)

    def away(*_: Any) -> None:
        raise BrokerUnavailable("the broker is away")

    monkeypatch.setattr(bench.definitions, "look", away)
    with pytest.raises(BrokerUnavailable):
        keeper.keep_in_time()
    bench.rescue.close()
    assert {item.schedule for item in outbox.checkpoints()} == {"tick", "other"}
    monkeypatch.undo()
    bench.clock.advance(bench.reconciler._resync)
    keeper.keep_in_time()
    assert keeper._sweep_at > bench.clock.monotonic(), "it was swept as soon as the broker was back"
