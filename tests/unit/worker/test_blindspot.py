"""Events that this worker cannot judge, since a peer has rules that it cannot read: handed over, and taken by who can."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from support.broker import await_fact
from support.intake import TEMPLATE, Intake, live_app
from support.workbench import record

from relayctl.host.clock import HeldClock
from relayctl.store.fleet import Holdings
from relayctl.store.keys import GROUP, HANDED_OVER
from relayctl.worker.blindspot import Blindspot

if TYPE_CHECKING:
    from pathlib import Path

    import redis

OTHER = TEMPLATE.replace("go", "stay")


class Blind(Intake):
    """A worker with `app` live, and `unread` apps that it cannot read."""

    unread: frozenset[str] | None = frozenset({"other"})

    def __init__(self, root: Path, client: redis.Redis, **more: Any) -> None:
        super().__init__(root, client, clock=HeldClock(datetime.now(UTC)), **more)
        self._seq = 0
        self.consumer._blindspot = Blindspot(
            unread=lambda: self.unread,
            known=lambda: self.snapshot.live,
            peers=self.peers,
            clock=self.clock,
            emit=self.facts.append,
        )

    def peer(self, *apps: str) -> None:
        """Another live worker has these apps."""
        self.fleet.hold("w2", Holdings(apps=dict.fromkeys(apps, "r")))
        self._seq += 1
        self.fleet.beat(record("w2", holdings_seq=self._seq))
        self.see()

    def see(self) -> None:
        self.peers.update(int(self.client.time()[0]) * 1000)

    def handed_over(self) -> int:
        pending: list[Any] = self.client.xpending(self.keys.events, GROUP)["consumers"]
        return sum(each["pending"] for each in pending if each["name"] == HANDED_OVER)

    def has_rested(self, count: int) -> bool:
        """Whether so many entries were handed over a while ago, and nobody has touched them since."""
        listed = self.client.xpending_range(self.keys.events, GROUP, "-", "+", 100, HANDED_OVER)
        return sum(each["time_since_delivered"] > 150 for each in listed) == count

    def send(self, kind: str) -> None:
        self.client.xadd(self.keys.events, {"event": json.dumps({"kind": kind})})


@pytest.fixture
def blind(tmp_path: Path, redis_client: redis.Redis) -> Blind:
    return Blind(tmp_path / "w1", redis_client)


def test_events_wait_for_a_peer_that_sees_all_rules_and_are_told_once(
    blind: Blind, redis_client: redis.Redis, tmp_path: Path
) -> None:
    blind.peer("app", "other")
    for kind in ("stay", "go", "nothing"):
        blind.send(kind)
    blind.take_in()
    await_fact(lambda: blind.has_rested(3), "nothing is handed over", 5)
    for _ in range(3):
        blind.clock.advance(timedelta(seconds=6))
        blind.take_in()
    assert blind.has_rested(3), "it takes back what it cannot judge"
    assert blind.handed_over() == 3, "one that matched a rule may match another one too"
    assert [(fact.unread, fact.count) for fact in blind.told("events-handed-over")] == [(("other",), 3)]
    assert blind.told("event-unmatched") == []

    seeing = Intake(tmp_path / "w2", redis_client, worker="w2", templates={"app": TEMPLATE, "other": OTHER})

    def took() -> bool:
        seeing.consumer._sweep_at = 0.0
        seeing.take_in()
        return blind.handed_over() == 0

    await_fact(took, "nobody takes what was handed over", 5)
    assert sorted(claim.app for claim in seeing.places.started) == ["app", "other"]
    assert len(seeing.told("event-unmatched")) == 1


def test_what_names_its_app_and_slot_is_not_handed_over(blind: Blind) -> None:
    blind.peer("other")
    manual = {
        "source": "relay.manual",
        "v": 1,
        "app": "app",
        "schedule": "tick",
        "scheduled_at": "2026-01-01T00:00:00Z",
    }
    blind.client.xadd(blind.keys.events, {"event": json.dumps(manual)})
    blind.client.xadd(blind.keys.events, {"event": "{no json"})
    blind.take_in()
    assert blind.handed_over() == 0
    assert len(blind.told("message-rejected")) == 1


@pytest.mark.parametrize("held", [(), ("app",), ("app", "third")], ids=["nothing", "the same", "another"])
def test_where_no_live_peer_has_it_an_event_ends_as_unmatched(blind: Blind, held: tuple[str, ...]) -> None:
    blind.peer(*held)
    blind.send("stay")
    blind.take_in()
    assert blind.handed_over() == 0
    assert len(blind.told("event-unmatched")) == 1


def test_once_the_last_peer_is_gone_it_judges_what_it_handed_over(blind: Blind) -> None:
    blind.peer("other")
    blind.send("stay")
    blind.take_in()
    assert blind.handed_over() == 1
    blind.fleet.leave("w2")
    blind.fleet.beat(record("w1"))
    blind.fleet.hold("w1", Holdings(apps={"app": "r"}))
    blind.see()

    def judged() -> bool:
        blind.consumer._sweep_at = 0.0
        blind.take_in()
        return len(blind.told("event-unmatched")) == 1

    await_fact(judged, "it waits for nobody", 5)
    assert blind.handed_over() == 0


def test_before_it_has_seen_the_fleet_it_takes_nothing_for_nobodys(blind: Blind) -> None:
    blind.send("stay")
    blind.take_in()
    assert blind.handed_over() == 1


def test_with_a_lost_tree_every_app_of_a_peer_that_does_not_run_here_counts(blind: Blind) -> None:
    blind.unread = None
    blind.peer("app")
    blind.send("nothing")
    blind.take_in()
    assert len(blind.told("event-unmatched")) == 1
    blind.peer("app", "fourth")
    blind.send("nothing")
    blind.take_in()
    assert blind.handed_over() == 1
    assert blind.told("events-handed-over")[0].unread == ("fourth",)


def test_nothing_is_read_before_the_tree_was_looked_at(blind: Blind) -> None:
    blind.consumer._has_looked = lambda: False
    blind.send("go")
    blind.take_in()
    assert blind.facts == []
    assert blind.places.started == []


def test_a_worker_for_some_apps_leaves_what_its_tree_lacks_to_a_peer_for_all(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    blind = Blind(tmp_path, redis_client)
    blind.unread = frozenset()
    blind.consumer._blindspot._is_partial = True  # type: ignore[union-attr]
    blind.peer("other")
    assert blind.consumer._blindspot.look() == ("other",)  # type: ignore[union-attr]
    blind.fleet.beat(record("w2", holdings_seq=9, is_partial=True))
    blind.fleet.hold("w2", Holdings(apps={"other": "r"}))
    blind.see()
    assert blind.consumer._blindspot.look() is None, "nobody sees more than it does"  # type: ignore[union-attr]


def test_an_event_that_only_apps_elsewhere_want_waits_for_who_runs_them(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    intake = Intake(tmp_path, redis_client)
    other = live_app(tmp_path / "others", "other", OTHER).app
    intake.consumer._elsewhere = lambda: {"other": other}
    intake.take_in()
    for kind in ("stay", "go", "none"):
        redis_client.xadd(intake.keys.events, {"event": json.dumps({"kind": kind})})
    intake.take_in()
    assert [claim.app for claim in intake.places.started] == ["app"]
    assert redis_client.zcard(intake.keys.ready_of("other")) == 1
    assert [fact.event for fact in intake.facts] == ["event-unmatched"]
