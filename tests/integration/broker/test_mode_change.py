"""Changing a namespace's mode where the embedded broker ended with the last worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.storedesk import RECORD

from relayctl.api.modes import look_at_mode
from relayctl.api.place import Place
from relayctl.broker.supervise import EmbeddedBroker
from relayctl.errors import NoBroker, Refused
from relayctl.host.clock import SystemClock
from relayctl.host.state import StateDir
from relayctl.store.connect import connect
from relayctl.store.fleet import Fleet
from relayctl.store.keys import Keys

if TYPE_CHECKING:
    from pathlib import Path

CLOCK = SystemClock()


def test_with_the_last_worker_gone_it_starts_the_broker_and_stops_it_again(short_dir: Path) -> None:
    state = StateDir(short_dir / "s")
    place = Place(state_dir=state.path)
    with EmbeddedBroker(state, CLOCK) as broker:
        client = connect(broker.target)
        fleet = Fleet(client, Keys())
        fleet.enter_mode("push")
        fleet.beat(RECORD)
        with pytest.raises(Refused, match=RECORD.id):
            look_at_mode(place, CLOCK, "pull")
        assert broker.is_alive(), "it stopped a broker that it had not started"
        fleet.leave(RECORD.id)
        client.close()
    assert not EmbeddedBroker(state, CLOCK).is_alive()
    changed = look_at_mode(place, CLOCK, "pull")
    assert (changed.mode, changed.is_changed) == ("pull", True)
    assert not EmbeddedBroker(state, CLOCK).is_alive()
    again = look_at_mode(place, CLOCK, "pull")
    assert (again.mode, again.is_changed) == ("pull", False)


def test_where_none_was_ever_started_none_is(short_dir: Path) -> None:
    with pytest.raises(NoBroker) as refused:
        look_at_mode(Place(state_dir=short_dir / "s"), CLOCK, "push")
    assert "serve --follow" in (refused.value.help or "")
    assert not (short_dir / "s").exists()
