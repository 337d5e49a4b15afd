"""Every step whose answer is lost, taken again: nothing happens twice, nothing is missing, and the answer makes sense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from support.storedesk import APP, EVERY_10_S, HANDLER, LEASE_MS, RECORD, SCHEDULE, T0, T0_MS, Desk

from relayctl.core.checkpoint import Checkpoint
from relayctl.core.deadletter import LetterFilter
from relayctl.core.manual import ManualRun
from relayctl.core.occurrence import from_epoch
from relayctl.errors import BrokerUnavailable
from relayctl.store.controls import Controls, ControlVerdict
from relayctl.store.dead_letters import DeadLetters, LetterVerdict
from relayctl.store.definitions import Mode, Verdict
from relayctl.store.failure import reply_lost
from relayctl.store.invocations import EndVerdict
from relayctl.store.keys import GROUP
from relayctl.store.scripts import Scripts
from relayctl.store.stream import PublishVerdict

if TYPE_CHECKING:
    from relayctl.core.lifecycle import Claim

BY = "ann@host"
MEMORY = Checkpoint(
    app=APP, schedule=SCHEDULE, gen=7, hash="h1", spec=EVERY_10_S, from_ms=T0_MS - 900_000, floor=T0 - 60,
    paused_at=T0 + 900, paused_by=BY, control=5,
)  # fmt: skip


class Scene:
    """One desk in some state, and the step to take on it."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.controls = Controls(desk.client, desk.keys)
        self.letters = DeadLetters(desk.client, desk.keys)

    def schedule(self) -> None:
        self.desk.register("h1", spec=EVERY_10_S)

    def paused(self) -> None:
        self.schedule()
        self.controls.pause(APP, SCHEDULE, until=None, by=BY, reason="x", now_ms=T0_MS)

    def claimed(self) -> Claim:
        return self.desk.claimed(self.desk.enter((APP, HANDLER)))

    def letter(self) -> str:
        self.desk.end(self.claimed(), "failed", is_retryable=False)
        [found] = self.letters.newest(LetterFilter(), 10)
        return found.id


@dataclass(frozen=True, slots=True)
class Step:
    """A step by its script: what comes before it makes what it is taken on; then the answer to its repetition."""

    script: str
    before: Callable[[Scene], Any]
    act: Callable[[Scene, Any], Any]
    again: Any


def run(key: str) -> ManualRun:
    return ManualRun(app=APP, schedule=SCHEDULE, key=key, asked_at=from_epoch(T0), by=BY)


def idle_consumer(scene: Scene) -> None:
    scene.desk.stream.ensure_group()
    scene.desk.client.xgroup_createconsumer(scene.desk.keys.events, GROUP, "idle")


STEPS = [
    Step("publish", lambda it: it.schedule(), lambda it, _: it.desk.publish(T0).verdict, PublishVerdict.PUBLISHED),
    Step("close", lambda it: it.schedule(), lambda it, _: it.desk.close(T0 - 50, T0 - 10, step=10), 0),
    Step("audit", lambda it: (it.schedule(), it.desk.publish(T0), it.desk.closings.recorded(APP, SCHEDULE)[0])[-1],
         lambda it, read: it.desk.closings.raise_floor(APP, SCHEDULE, read, T0, [str(T0)]), False),
    Step("pause", lambda it: it.schedule(),
         lambda it, _: it.controls.pause(APP, SCHEDULE, until=T0 + 99, by=BY, reason="x", now_ms=T0_MS),
         (ControlVerdict.KEPT, T0)),
    Step("resume", lambda it: it.paused(),
         lambda it, _: it.controls.resume(APP, SCHEDULE, by=BY, now_ms=T0_MS + 55_000).verdict, ControlVerdict.RUNNING),
    Step("tell", lambda it: it.paused(), lambda it, _: it.controls.take_untold(APP, SCHEDULE), []),
    Step("trigger", lambda it: it.schedule(), lambda it, _: it.controls.trigger(run("k"))[0], ControlVerdict.DUPLICATE),
    Step("refuse", lambda it: it.schedule(), lambda it, _: it.controls.refused(APP, SCHEDULE, "too large", "t1"), 1),
    Step("register", lambda _: None, lambda it, _: it.desk.register("h1")[0], Verdict.UNCHANGED),
    Step("register", lambda it: it.schedule(),
         lambda it, _: it.desk.register("h2", mode=Mode.EDIT, held=1)[0], Verdict.UNCHANGED),
    Step("register", lambda it: it.schedule(), lambda it, _: it.desk.remove(1), Verdict.UNCHANGED),
    Step("settle", lambda it: (it.schedule(), it.desk.remove(1)),
         lambda it, _: it.desk.definitions.settle_removed(APP, SCHEDULE, 2), None),
    Step("restore", lambda _: None, lambda it, _: it.desk.definitions.restore([MEMORY], T0_MS), 0),
    Step("beat", lambda _: None, lambda it, _: it.desk.fleet.beat(RECORD, T0_MS).workers, ("w1",)),
    Step("renew", lambda it: it.claimed(),
         lambda it, claim: it.desk.invocations.renew([claim], lease_ms=LEASE_MS, now_ms=T0_MS + 2000), []),
    Step("expire", lambda it: it.claimed(),
         lambda it, claim: it.desk.take_back(claim.message, now_ms=T0_MS + LEASE_MS + 1)[0], "gone"),
    Step("finish", lambda it: it.claimed(), lambda it, claim: it.desk.end(claim)[0], EndVerdict.AGAIN),
    Step("finish", lambda it: it.claimed(), lambda it, claim: it.desk.end(claim, "failed")[0], EndVerdict.AGAIN),
    Step("finish", lambda it: it.claimed(),
         lambda it, claim: it.desk.end(claim, "failed", is_retryable=False)[0], EndVerdict.AGAIN),
    Step("finish", lambda it: it.claimed(),
         lambda it, claim: it.desk.invocations.release([claim], T0_MS + 5), None),
    Step("finish", lambda it: it.claimed(), lambda it, claim: it.desk.end(claim, "released")[0], EndVerdict.RELEASED),
    Step("forget", idle_consumer, lambda it, _: it.desk.fleet.forget_consumers(idle_ms=0), None),
    Step("discard", lambda it: it.letter(), lambda it, letter: it.letters.remove(letter)[0], LetterVerdict.GONE),
    Step("replay", lambda it: it.letter(), lambda it, letter: it.letters.replay(letter)[0], LetterVerdict.RUNNING),
]  # fmt: skip


def losing(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the deeds of that script are done, and their answers do not arrive."""
    from redis.exceptions import TimeoutError as Silence

    real_run, real_run_many = Scripts.run, Scripts.run_many

    def lost_run(scripts: Scripts, name: str, *arguments: Any) -> Any:
        answer = real_run(scripts, name, *arguments)
        if name == script:
            raise Silence("Timeout reading from socket")
        return answer

    def lost_run_many(scripts: Scripts, name: str, *arguments: Any, **options: Any) -> Any:
        answers = real_run_many(scripts, name, *arguments, **options)
        if name == script:
            raise reply_lost(Silence("Timeout reading from socket"))
        return answers

    monkeypatch.setattr(Scripts, "run", lost_run)
    monkeypatch.setattr(Scripts, "run_many", lost_run_many)


@pytest.mark.parametrize("step", STEPS, ids=[f"{step.script}-{number}" for number, step in enumerate(STEPS)])
def test_a_step_whose_answer_was_lost_is_taken_again(desk: Desk, step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(desk)
    ground = step.before(scene)
    before = desk.contents()
    with monkeypatch.context() as patch:
        losing(step.script, patch)
        with pytest.raises(BrokerUnavailable):
            # Some answers are collected only when they are asked for.
            step.act(scene, ground)
            raise AssertionError("its answer arrived")
    after = desk.contents()
    assert after != before or step.script in {"renew", "forget"}, "the deed was done"
    assert step.act(scene, ground) == step.again
    assert desk.contents() == after, "and it was done once"


def test_an_older_memory_after_a_lost_answer_changes_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        losing("restore", patch)
        with pytest.raises(BrokerUnavailable):
            desk.definitions.restore([MEMORY], T0_MS)
    after = desk.contents()
    desk.definitions.restore([replace(MEMORY, floor=T0 - 90, control=4, paused_at=None)], T0_MS)
    assert desk.contents() == after
