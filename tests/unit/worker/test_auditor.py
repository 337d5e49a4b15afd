"""The audit on a real broker, stepped by the test: what it alarms, what it closes, what it drops, what it leaves alone."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support.broker import await_fact
from support.workbench import Workbench, every

from relayctl.core.account import KEPT_FIRINGS, KEPT_FOR_S, UNPUBLISHED_OLD, UNPUBLISHED_OVERTAKEN
from relayctl.core.definition import TOMBSTONE, Spec
from relayctl.core.occurrence import Occurrence, epoch_seconds, from_epoch
from relayctl.store.definitions import Mode, Proposal
from relayctl.store.stream import Publication, PublishVerdict
from relayctl.worker.auditor import Auditor

DAY = 86_400


class Audit:
    """Schedule app/tick, in force for `since_s` seconds and settled as the scheduler sees it; nothing is published."""

    def __init__(self, bench: Workbench, seconds: int = 60, since_s: int = 3600, extra: str = "") -> None:
        self.bench = bench
        self.seconds = seconds
        # The broker's clock goes on while the test looks: begin early in a second, so that both mean the same one.
        await_fact(lambda: bench.client.time()[1] < 300_000, "no second begins", within_s=2)
        self.now = bench.now()
        self.begin = self.now - since_s
        spec = Spec.of(every(seconds))
        self.propose(spec.hash, spec.text, self.begin)
        self.mark(self.now)
        bench.app("app", f"name: tick, every: {seconds}s{extra}")
        bench.settle()
        bench.facts.clear()
        self.auditor = Auditor(
            closings=bench.closings,
            definitions=bench.definitions,
            peers=bench.peers,
            snapshot=lambda: bench.reconciler.snapshot,
            time=bench.time,
            clock=bench.clock,
            emit=bench.facts.append,
        )

    @property
    def key(self) -> str:
        return self.bench.keys.schedule("app", "tick")

    def propose(self, hash: str, spec: str, at: int, mode: Mode = Mode.START, held: int = 0) -> None:  # noqa: A002
        proposal = Proposal(app="app", schedule="tick", mode=mode, hash=hash, spec=spec, held_gen=held)
        # What is marked as published would keep the definition from beginning in the past.
        mark = self.bench.client.hget(self.key, "hw")
        self.bench.client.hdel(self.key, "hw")
        self.bench.definitions.register([proposal], at * 1000)
        if mark:
            self.mark(int(mark))

    def mark(self, at: int) -> None:
        self.bench.client.hset(self.key, "hw", at)

    def due(self, until: int | None = None) -> list[int]:
        last = self.now - 60 if until is None else until
        return [at for at in range(self.begin, last + 1) if at % self.seconds == 0]

    def publish(self, *instants: int, gen: int = 1) -> list[PublishVerdict]:
        items = [
            Occurrence(app="app", schedule="tick", handler="jobs.run", scheduled_at=from_epoch(at), gen=gen)
            for at in instants
        ]
        answers = self.bench.stream.publish(items, "w1", now_ms=max(instants, default=0) * 1000)
        return [answer.verdict for _, answer in answers if isinstance(answer, Publication)]

    def step(self, after_s: float = 0) -> None:
        self.bench.clock.advance(timedelta(seconds=after_s))
        self.auditor.step()

    @property
    def floor(self) -> int | None:
        found = self.bench.client.hget(self.key, "floor")
        return int(found) if found else None

    def fields(self) -> dict[str, str]:
        found: dict[str, str] = self.bench.client.hgetall(self.bench.keys.published("app", "tick"))
        return found


def test_all_is_well_where_all_is_published(bench: Workbench) -> None:
    audit = Audit(bench)
    audit.publish(*audit.due())
    audit.step()
    assert bench.facts == []
    assert audit.auditor.unaccounted == 0
    assert (audit.floor, len(audit.fields())) == (None, len(audit.due())), "there is room for them all"


def test_a_hole_is_told_once_and_settles_when_it_is_filled(bench: Workbench) -> None:
    audit = Audit(bench)
    due = audit.due()
    hole = due[10:12]
    audit.publish(*(at for at in audit.due(audit.now + 180) if at not in hole))
    audit.step()
    audit.step(after_s=40)
    [fact] = bench.told("overdue")
    assert (epoch_seconds(fact.first_at), epoch_seconds(fact.last_at), fact.count) == (hole[0], hole[1], 2)
    assert audit.auditor.unaccounted == 2
    audit.publish(*hole)
    audit.step(after_s=40)
    assert audit.auditor.unaccounted == 0
    assert len(bench.told("overdue")) == 1


def test_what_is_due_for_less_than_a_minute_is_waited_for(bench: Workbench) -> None:
    audit = Audit(bench, seconds=1, since_s=50)
    audit.step()
    assert bench.facts == []
    audit.step(after_s=30)
    [fact] = bench.told("overdue")
    assert 15 <= fact.count <= 25


def test_jitter_is_waited_for_too(bench: Workbench) -> None:
    audit = Audit(bench, seconds=300, since_s=250, extra=", jitter: 2m")
    audit.publish(*audit.due(audit.now))
    at = audit.now - audit.now % 300 + 300
    audit.step(after_s=at + 150 - audit.now)
    assert bench.told("overdue") == []
    audit.step(after_s=60)
    [fact] = bench.told("overdue")
    assert epoch_seconds(fact.first_at) == at


def test_a_hole_is_closed_once_enough_younger_ones_exist(bench: Workbench) -> None:
    audit = Audit(bench, seconds=1, since_s=60 + KEPT_FIRINGS + 40)
    due = audit.due()
    holes = [due[3], due[4], due[-20]]
    audit.publish(*(at for at in due if at not in holes))
    audit.step()
    [missed] = bench.told("missed")
    assert (epoch_seconds(missed.first_at), missed.count, missed.reason) == (due[3], 2, UNPUBLISHED_OVERTAKEN)
    assert [fact.count for fact in bench.told("overdue")] == [1]
    assert audit.floor is not None
    assert due[4] < audit.floor < due[-20]
    assert audit.publish(due[3]) == [PublishVerdict.SETTLED]
    assert audit.publish(due[-20]) == [PublishVerdict.PUBLISHED]


def test_a_hole_is_closed_after_seven_days(bench: Workbench) -> None:
    audit = Audit(bench, seconds=DAY, since_s=9 * DAY)
    due = audit.due()
    audit.publish(*due[1:])
    audit.step()
    [missed] = bench.told("missed")
    assert (epoch_seconds(missed.first_at), missed.count, missed.reason) == (due[0], 1, UNPUBLISHED_OLD)
    old = [at for at in due if audit.now - at >= KEPT_FOR_S]
    assert audit.floor == old[-1]
    assert sorted(audit.fields()) == [str(at) for at in due if at not in old]
    audit.step(after_s=DAY)
    assert audit.floor == old[-1] + DAY, "age alone drops what is old"


def test_the_published_set_is_bounded_and_below_the_floor_all_is_accounted_for(bench: Workbench) -> None:
    audit = Audit(bench, seconds=60, since_s=3 * DAY)
    due = audit.due()
    audit.publish(*due)
    audit.step()
    kept = sorted(int(at) for at in audit.fields())
    assert len(kept) <= KEPT_FIRINGS
    assert kept == due[-len(kept) :]
    assert audit.floor == due[-len(kept) - 1]
    assert bench.facts == []
    assert audit.publish(due[0], due[-1]) == [PublishVerdict.SETTLED, PublishVerdict.PUBLISHED]


def test_a_range_that_was_closed_leaves_no_hole(bench: Workbench) -> None:
    audit = Audit(bench, seconds=1, since_s=DAY)
    job = bench.scheduler._agenda.get(("app", "tick"))
    assert job is not None
    # As if the worker had been away for a day: its first pass closes what it leaves out.
    bench.client.hdel(audit.key, "hw")
    job.cursor = audit.begin
    bench.scheduler._agenda.plan(job)
    bench.tick()
    [fact] = bench.told("passed-over")
    assert fact.count >= DAY - 5
    [closed] = [at for at in audit.fields() if "-" in at]
    bench.tick()
    audit.step(after_s=55)
    assert bench.told("overdue") == []
    assert closed in audit.fields(), "one field is no burden"


def test_a_pause_is_no_hole(bench: Workbench) -> None:
    audit = Audit(bench)
    due = audit.due()
    bench.client.hset(audit.key, "paused", due[30])
    audit.publish(*due[:30])
    audit.mark(due[29])
    audit.step()
    audit.step(after_s=3600)
    assert bench.facts == []


def test_an_edit_moves_what_is_expected_and_a_removal_ends_it(bench: Workbench) -> None:
    audit = Audit(bench)
    bench.client.hset(audit.key, "paused", audit.begin)
    audit.step()
    bench.client.hdel(audit.key, "paused")
    hourly, when = Spec.of(every(3600)), audit.now - 1800
    audit.propose(hourly.hash, hourly.text, when, Mode.EDIT, 1)
    audit.propose(TOMBSTONE, "", audit.now - 600, Mode.EDIT, 2)
    expected = [at for at in audit.due() if at < when]
    audit.publish(*expected[:-1])
    audit.step()
    [fact] = bench.told("overdue")
    hours = [at for at in range(when, audit.now - 600) if at % 3600 == 0]
    assert fact.count == 1 + len(hours)
    assert epoch_seconds(fact.first_at) == expected[-1]


def test_what_a_failover_lost_below_the_newest_is_found(bench: Workbench) -> None:
    audit = Audit(bench)
    due = audit.due()
    audit.publish(*due)
    audit.step()
    assert bench.facts == []
    bench.client.hdel(bench.keys.published("app", "tick"), str(due[5]))
    audit.step(after_s=120)
    facts = bench.told("overdue")
    assert due[5] in [epoch_seconds(fact.first_at) for fact in facts]


def test_a_look_costs_two_numbers_while_all_is_well(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = Audit(bench, seconds=1, since_s=40)
    audit.publish(*audit.due(audit.now))
    audit.step()
    read = []
    monkeypatch.setattr(bench.closings, "recorded", lambda *name: read.append(name))
    for turn in range(1, 5):
        audit.publish(*range(audit.now + 1 + 20 * (turn - 1), audit.now + 20 * turn + 1))
        audit.step(after_s=20 if turn > 1 else 80)
    assert read == []


def test_the_second_in_rank_audits_if_there_is_one(bench: Workbench) -> None:
    audit = Audit(bench)
    assert bench.peers.audits("app")
    own = bench.reconciler.snapshot.live["app"]
    assert own is not None
    bench.peer("w2", {"app/tick": "h"})
    bench.tick()
    alone = bench.peers.audits("app")
    bench.peer("w3", {"app/tick": "h"})
    bench.peer("w2", {"app/tick": "h"})
    bench.tick()
    seen = {alone, bench.peers.audits("app")}
    assert seen <= {True, False}
    if not bench.peers.audits("app"):
        audit.step()
        assert bench.facts == [], "somebody else does"
    assert not bench.peers.audits("other")


def remove(audit: Audit, at: int, held: int = 1) -> None:
    audit.propose(TOMBSTONE, "", at, Mode.EDIT, held)


def verdict_of(audit: Audit, at: int) -> str:
    from relayctl.core.account import Recorded

    return Recorded.of(audit.fields()).value_at(at) or ""


@pytest.mark.parametrize("is_app_gone", [False, True])
def test_what_was_removed_before_the_audit_began_still_gets_its_verdicts(bench: Workbench, is_app_gone: bool) -> None:
    audit = Audit(bench, seconds=DAY, since_s=9 * DAY)
    due = audit.due()
    old = [at for at in due if audit.now - at >= KEPT_FOR_S]
    waited_for = due[len(old)]
    audit.publish(*due[len(old) + 1 :])
    remove(audit, audit.now - 600)
    if is_app_gone:
        bench.app("other", "name: tick, every: 1h")
        bench.look()
        bench.remove("app")
        bench.settle()
        assert "app" not in bench.reconciler.snapshot.live
    bench.tick()
    audit.step()
    [missed] = bench.told("missed")
    assert (epoch_seconds(missed.first_at), missed.count, missed.reason) == (old[0], len(old), UNPUBLISHED_OLD)
    [overdue] = bench.told("overdue")
    assert (epoch_seconds(overdue.first_at), overdue.count) == (waited_for, 1)
    assert ("app", "tick") in bench.definitions.removed_names()
    audit.step(after_s=DAY)
    assert [epoch_seconds(fact.first_at) for fact in bench.told("missed")] == [old[0], waited_for]
    assert bench.definitions.removed_names() == [], "nothing is owed any more, and nothing is looked at again"
    assert ("app", "tick") not in audit.auditor._watched


def test_a_removed_schedule_that_comes_back_is_audited_like_any_other(bench: Workbench) -> None:
    audit = Audit(bench)
    audit.publish(*audit.due())
    remove(audit, audit.now - 30)
    assert bench.definitions.removed_names() == [("app", "tick")]
    hourly = Spec.of(every(3600))
    audit.propose(hourly.hash, hourly.text, audit.now - 20)
    assert bench.definitions.removed_names() == []
    bench.definitions.settle_removed("app", "tick", 2)
    remove(audit, audit.now - 10, held=3)
    bench.definitions.settle_removed("app", "tick", 2)
    assert bench.definitions.removed_names() == [("app", "tick")], "of an older removal only"


def test_what_a_pause_covered_is_closed_where_nobody_can_resume(bench: Workbench) -> None:
    audit = Audit(bench)
    due = audit.due()
    bench.client.hset(audit.key, "paused", due[30])
    audit.publish(*due[:30])
    audit.mark(due[29])
    remove(audit, audit.now - 300)
    audit.step()
    assert bench.facts == []
    covered = [at for at in due[30:] if at < audit.now - 300]
    assert covered
    assert all(verdict_of(audit, at).startswith("c|paused|") for at in covered)
    assert bench.head()["paused"] == str(due[30]), "it stays paused, should it be written again"
    assert bench.definitions.removed_names() == []


def test_a_range_of_lost_firings_spares_what_another_evaluator_decided(bench: Workbench) -> None:
    audit = Audit(bench, seconds=3600, since_s=30 * DAY)
    ours = Spec.of(every(3600))
    foreign = ours.text.replace('"evaluator":"1"', '"evaluator":"0"')
    assert foreign != ours.text
    begin, end = audit.now - 20 * DAY, audit.now - 15 * DAY
    audit.propose("foreign", foreign, begin)
    other = Spec.of(every(7200))
    audit.propose(other.hash, other.text, end)
    audit.step()
    ranges = [(epoch_seconds(fact.first_at), epoch_seconds(fact.last_at)) for fact in bench.told("missed")]
    kept = [fields for _, fields in bench.client.xrange(bench.keys.history_of_schedule("app", "tick"))]
    assert len(ranges) == len(kept) == 2
    assert ranges[0][1] < begin
    assert ranges[1][0] >= end
