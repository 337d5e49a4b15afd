"""What no live worker can run: who counts as able, when it is ended, and that a fleet which starts is waited for."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from support.intake import TEMPLATE, Intake
from support.workbench import record

from relayctl.core.lifecycle import Slot
from relayctl.host.clock import HeldClock
from relayctl.store.fleet import Holdings
from relayctl.store.stream import OwedInvocation, RouteOrder
from relayctl.worker.claimer import LEASE_MS
from relayctl.worker.stranded import GRACE_S, LOOK_S

if TYPE_CHECKING:
    from pathlib import Path

    import redis

DAY = timedelta(hours=24)
LOOKS = int(GRACE_S / LOOK_S) + 1


class Watchman(Intake):
    """A worker with the app `app`, whose time is held; the broker holds work of the app `shop` too."""

    def __init__(self, root: Path, client: redis.Redis, **how: Any) -> None:
        super().__init__(root, client, clock=HeldClock(datetime.now(UTC)), **how)
        self.root = root

    def pass_by(self, *alive: str, apps: dict[str, str] | None = None, looks: int = 1, **said: Any) -> None:
        """Let time pass by that many looks; each time the workers `alive` have just beaten, with these apps."""
        for _ in range(looks):
            self.clock.advance(timedelta(seconds=LOOK_S))
            for worker in ("w1", *alive):
                held = {"app": "r"} if worker == "w1" else apps or {}
                self.fleet.hold(worker, Holdings(apps=held, schedules={}))
                more = said if worker != "w1" else {}
                self.fleet.beat(record(worker, holdings_seq=hash(str(held)) % 1000, **more), self.time.now_ms())
            self.peers.update(self.time.now_ms())
            self.claimer.step()

    def enter(self, app: str = "shop", slot: str = "jobs.on") -> str:
        message = self.stream.emit(json.dumps({"kind": "go"}))
        self.stream.ensure_group()
        self.stream.read("other", count=10, block_ms=1)
        owed = OwedInvocation(app=app, slot=slot, history=self.invocations.history_key(app, Slot(slot)))
        order = RouteOrder(id=message, event='{"kind":"go"}', kind="event", owed=(owed,))
        assert self.stream.route([order], lease_ms=LEASE_MS, now_ms=self.time.now_ms()) == [["ready"]]
        return message

    def age(self, mark: str, by: timedelta = DAY) -> None:
        """The mark and the work behind it are older by so much than they were."""
        ms = by // timedelta(milliseconds=1)
        since = self.strandings.marks()[mark]
        self.client.hset(self.keys.stranded, mark, since - ms)
        app = mark.partition("|")[0]
        for member, due in self.client.zrange(self.keys.ready_of(app), 0, -1, withscores=True):
            self.client.zadd(self.keys.ready_of(app), {member: due - ms})


@pytest.fixture
def watchman(tmp_path: Path, redis_client: redis.Redis) -> Watchman:
    return Watchman(tmp_path, redis_client)


def ended(watchman: Watchman) -> list[str]:
    return [fact.message for fact in watchman.told("run-abandoned")]


def test_work_of_an_app_that_nobody_has_ends_after_a_day_of_waiting(watchman: Watchman) -> None:
    message = watchman.enter()
    watchman.pass_by(looks=LOOKS)
    assert list(watchman.strandings.marks()) == ["shop"]
    assert ended(watchman) == []
    watchman.age("shop", DAY - timedelta(minutes=5))
    watchman.pass_by()
    assert ended(watchman) == []
    watchman.age("shop", timedelta(minutes=5))
    watchman.pass_by()
    assert ended(watchman) == [message]
    assert watchman.client.xlen(watchman.keys.events) == 0
    [(_, letter)] = watchman.client.xrange(watchman.keys.dead_letters)
    assert letter["reason"] == "unavailable"
    watchman.pass_by()
    assert watchman.strandings.marks() == {}, "nothing of the app is due any more"


def test_a_worker_that_starts_late_into_it_waits_for_its_peers_first(watchman: Watchman) -> None:
    message = watchman.enter()
    watchman.pass_by()
    watchman.age("shop")
    watchman.pass_by()
    assert ended(watchman) == [], "a peer may be about to start"
    watchman.pass_by(looks=LOOKS)
    assert ended(watchman) == [message], "the mark outlived whoever had made it"


def test_a_worker_that_has_not_seen_its_fleet_yet_neither_marks_nor_wipes(watchman: Watchman) -> None:
    watchman.enter()
    watchman.pass_by()
    marks = watchman.strandings.marks()
    assert marks
    fresh = Watchman(watchman.root / "fresh", watchman.client)
    fresh.claimer.step()
    assert (watchman.strandings.marks(), fresh.peers.records) == (marks, ())


def test_an_app_that_comes_back_runs_and_its_mark_is_wiped(watchman: Watchman) -> None:
    watchman.enter()
    watchman.pass_by(looks=LOOKS)
    watchman.age("shop")
    watchman.pass_by("w2", apps={"shop": "r"})
    assert (ended(watchman), watchman.strandings.marks()) == ([], {})
    watchman.pass_by(looks=LOOKS)
    assert ended(watchman) == [], "it is away since now"
    assert list(watchman.strandings.marks()) == ["shop"]


def test_a_worker_that_has_the_app_and_cannot_start_it_does_not_count(watchman: Watchman) -> None:
    message = watchman.enter()
    watchman.pass_by("w2", apps={"shop": "r"}, unable=("shop",), looks=LOOKS)
    watchman.age("shop")
    watchman.pass_by("w2", apps={"shop": "r"}, unable=("shop",))
    assert ended(watchman) == [message]


def test_nothing_ends_while_a_newer_worker_lives_whose_apps_cannot_be_known(watchman: Watchman) -> None:
    watchman.enter()
    watchman.pass_by(looks=LOOKS)
    watchman.age("shop")
    for _ in range(LOOKS + 1):
        watchman.client.set(watchman.keys.worker("w9"), '{"v":2,"id":"w9"}')
        watchman.client.zadd(watchman.keys.workers, {"w9": watchman.time.now_ms() + LOOK_S * 1000})
        watchman.pass_by()
        assert watchman.peers.newer == ("w9",)
    assert ended(watchman) == []


def test_a_slot_that_every_worker_refuses_ends_too(watchman: Watchman) -> None:
    gone = watchman.enter("app", "jobs.gone")
    watchman.pass_by(looks=LOOKS)
    assert list(watchman.strandings.marks()) == ["app|jobs.gone"]
    watchman.age("app|jobs.gone")
    watchman.pass_by(looks=LOOKS)
    assert ended(watchman) == [gone]


def test_a_hundred_that_are_refused_do_not_hide_what_can_run(watchman: Watchman) -> None:
    for _ in range(100):
        watchman.enter("app", "jobs.gone")
    good = watchman.enter("app", "jobs.on")
    watchman.claimer.step()
    assert [claim.message for claim in watchman.places.started] == [good]


def test_an_end_before_admission_is_no_end_of_what_an_event_rule_of_this_app_still_runs(watchman: Watchman) -> None:
    assert "jobs.on" in TEMPLATE
    message = watchman.enter("app", "jobs.on")
    watchman.pass_by(looks=LOOKS)
    assert [claim.message for claim in watchman.places.started] == [message]
    assert watchman.strandings.marks() == {}


def test_more_of_a_refused_slot_than_is_asked_for_often_ends_too(watchman: Watchman) -> None:
    for _ in range(250):
        watchman.enter("app", "jobs.gone")
    watchman.pass_by()
    seen = []
    for _ in range(120):
        watchman.clock.advance(timedelta(seconds=1))
        watchman.claimer.step()
        seen.append(len(watchman.claimer._lookout._seen_since))
    assert set(seen) == {1}, "what is asked for once a minute counts as refused in between"
    watchman.age("app|jobs.gone")
    watchman.clock.advance(timedelta(seconds=LOOK_S))
    watchman.claimer.step()
    assert len(ended(watchman)) == 250


def correct_clock(watchman: Watchman, by: timedelta) -> None:
    """The broker's time is set anew, and the next heartbeat tells."""
    now = watchman.clock.monotonic()
    watchman.time.learn(watchman.time.now_ms() + by // timedelta(milliseconds=1), now, now)


def test_a_clock_that_is_corrected_ends_nothing(watchman: Watchman) -> None:
    message = watchman.enter()
    watchman.pass_by(looks=LOOKS)
    before = watchman.strandings.marks()
    correct_clock(watchman, DAY)
    watchman.pass_by(looks=LOOKS + 1)
    assert ended(watchman) == [], "nobody has waited for a day"
    correct_clock(watchman, -DAY)
    watchman.pass_by()
    assert watchman.strandings.marks() == before
    watchman.age("shop")
    watchman.pass_by()
    assert ended(watchman) == [message]


def test_two_that_see_the_same_correction_follow_it_once(watchman: Watchman) -> None:
    watchman.enter()
    watchman.pass_by(looks=2)
    seen = watchman.strandings.marks()
    for _ in range(2):
        watchman.strandings.move(seen, 1000)
    assert watchman.strandings.marks() == {"shop": seen["shop"] + 1000}
