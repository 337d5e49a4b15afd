"""A state machine over the life of invocations: workers that claim, end, vanish and come back too late, over the real
scripts, against a plain model of what must hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.broker import await_fact
from support.storedesk import GROUP, LEASE_MS, ROUTED, T0_MS, Desk, attempt, descriptor, without_budget

from relayctl.core.lifecycle import Claim, Descriptor, Kind, Slot
from relayctl.store.definitions import Mode, Proposal
from relayctl.store.invocations import Bid, ClaimRefusal, EndVerdict
from relayctl.store.stranded import Stranded, Strandings
from relayctl.store.stream import Grant, RouteOrder

if TYPE_CHECKING:
    import redis

    from relayctl.store.stream import Entry

APPS = ("shop", "mail")
SLOTS = [("shop", "h.one"), ("shop", "h.two"), ("mail", "h.one"), ("shop", "@nightly")]
EVENT = '{"scheduled_at":"2027-01-15T08:00:00Z"}'
WORKERS = ("w1", "w2", "w3")
ENDED = {"succeeded", "failed", "obsolete", "skipped", "coalesced"}

anything = st.integers(min_value=0, max_value=1 << 16)
budgets = st.integers(min_value=0, max_value=2)
overlaps = st.sampled_from(["allow", "skip", "queue", "queue"])
seldom = st.sampled_from([False, False, False, True])
slot_lists = st.lists(st.sampled_from(SLOTS), min_size=1, max_size=3, unique=True)


@dataclass(eq=False)
class Inv:
    """What the model knows of one invocation."""

    message: str
    app: str
    slot: str
    state: str = "ready"
    made: int = 0
    token: str = ""
    pinned: str | None = None
    retries: int = 0
    overlap: str = "allow"
    due: int = 0
    lease: int = 0

    @property
    def name(self) -> str:
        return f"{self.app}|{self.slot}"


class Lifecycle(RuleBasedStateMachine):
    """One stream, two apps, three workers, a clock that only the rules move."""

    client: redis.Redis

    def __init__(self) -> None:
        super().__init__()
        self.client.flushall()
        self.desk = Desk(self.client)
        self.desk.stream.ensure_group()
        self.strandings = Strandings(self.client, self.desk.keys)
        self.stranded: dict[str, int] = {}
        self.now = T0_MS
        self.tokens = 0
        self.unread: list[str] = []
        self.in_stream: set[str] = set()
        self.pending: dict[str, str] = {}
        self.held: dict[str, Entry] = {}
        self.invs: dict[str, list[Inv]] = {}
        self.claims: list[Claim] = []
        self.buried_raw = 0
        self.gen = 0
        self.is_removed = False
        self.pin: str | None = None
        self.holder: Inv | None = None
        self.waiter: Inv | None = None
        self._define("h0", 0)

    # --- helpers ---

    def _define(self, content: str, held: int) -> None:
        proposal = Proposal(app="shop", schedule="nightly", mode=Mode.EDIT, hash=content, spec="", held_gen=held)
        [(_, head)] = self.desk.definitions.register([proposal], self.now)
        assert head is not None
        self.gen = head.gen

    def _all(self) -> list[Inv]:
        return [inv for invs in self.invs.values() for inv in invs]

    def _find(self, claim: Claim) -> Inv:
        return next(inv for inv in self.invs[claim.message] if (inv.app, inv.slot) == (claim.app, claim.slot.text))

    def _descriptor(self, inv: Inv, retries: int, overlap: str) -> str:
        schedule = Slot(inv.slot).schedule
        return descriptor(
            app=inv.app, schedule=schedule, retries=retries, handler=inv.slot.strip("@"), overlap=overlap
        ).to_json()

    def _finish(self, inv: Inv, state: str) -> None:
        inv.state = state
        if inv is self.waiter:
            self.waiter = None
        if inv is self.holder:
            self.holder, self.waiter = self.waiter, None
            if self.holder is not None:
                self.holder.due = self.now
        if all(other.state in ENDED for other in self.invs[inv.message]):
            self._leave_stream(inv.message)

    def _leave_stream(self, message: str) -> None:
        self.in_stream.discard(message)
        self.pending.pop(message, None)
        self.unread = [other for other in self.unread if other != message]

    def _overlap(self, inv: Inv, overlap: str) -> str | None:
        """What keeps it from being admitted, if anything does."""
        if inv.slot != "@nightly" or inv.pinned is not None:
            return None
        if self.holder is None:
            self.holder = inv
        if self.waiter is inv and overlap != "queue":
            self.waiter = None
        if self.holder is inv or overlap == "allow":
            return None
        if overlap == "skip":
            return "skipped"
        if self.waiter not in {None, inv}:
            return "coalesced"
        self.waiter = inv
        return "waiting"

    def _admit(self, inv: Inv, token: str, retries: int, overlap: str) -> None:
        inv.state, inv.token, inv.lease = "claimed", token, self.now + LEASE_MS
        inv.made += 1
        self.stranded.pop(inv.app, None)
        if inv.pinned is None:
            inv.pinned, inv.retries = self._descriptor(inv, retries, overlap), retries
            inv.overlap = overlap

    def _is_obsolete(self, inv: Inv) -> bool:
        return inv.slot == "@nightly" and self.is_removed and inv.pinned is None

    def _token(self) -> str:
        self.tokens += 1
        return f"t{self.tokens}"

    def _pick(self, which: int, is_any: bool) -> Inv:
        """Mostly one that has not ended: most rules are about those."""
        unfinished = self._in_state("ready", "claimed")
        among = self._all() if is_any or not unfinished else unfinished
        return among[which % len(among)]

    def _pick_claim(self, which: int, is_any: bool) -> Claim:
        """Mostly one that is still good, for else nothing would ever be run to its end."""
        good = [
            claim
            for claim in self.claims
            if (inv := self._find(claim)).state == "claimed" and (inv.token, inv.made) == (claim.token, claim.attempt)
        ]
        among = self.claims if is_any or not good else good
        return among[-1 - which % len(among)]

    # --- intake ---

    @initialize(slots=slot_lists, retries=budgets)
    def begin_with_work(self, slots: list[tuple[str, str]], retries: int) -> None:
        self.deliver(slots, False, retries, "allow")

    @precondition(lambda self: len(self._in_state("ready", "claimed")) < 5)
    @rule(slots=slot_lists, is_granted=st.booleans(), retries=budgets, overlap=overlaps)
    def deliver(self, slots: list[tuple[str, str]], is_granted: bool, retries: int, overlap: str) -> None:
        """One message all the way, as on a quiet day."""
        self.emit()
        message = self.unread[-1]
        self.read("w1", len(self.unread))
        self._route(message, slots, is_granted, retries, overlap)

    @precondition(lambda self: len(self._in_state("ready", "claimed")) < 5)
    @rule(overlap=overlaps, count=st.integers(min_value=1, max_value=3))
    def fire(self, overlap: str, count: int) -> None:
        """Occurrences of one schedule, each claimed as it comes."""
        for _ in range(count):
            self.deliver([("shop", "@nightly")], True, 1, overlap)

    @rule()
    def emit(self) -> None:
        message = self.desk.stream.emit(EVENT)
        self.unread.append(message)
        self.in_stream.add(message)

    @rule(worker=st.sampled_from(WORKERS), count=st.integers(min_value=1, max_value=3))
    def read(self, worker: str, count: int) -> None:
        entries = self.desk.read(worker, count)
        assert [entry.id for entry in entries] == self.unread[:count]
        for entry in entries:
            self.held[entry.id] = entry
            self.pending[entry.id] = worker
        self.unread = self.unread[count:]

    @rule(worker=st.sampled_from(WORKERS))
    def take_unrouted(self, worker: str) -> None:
        taken = self.desk.stream.take_unrouted(worker, idle_ms=0)
        expected = {message for message, owner in self.pending.items() if owner != ROUTED}
        assert {entry.id for entry in taken} == expected
        for entry in taken:
            self.held[entry.id] = entry
            self.pending[entry.id] = worker

    @precondition(lambda self: self.held)
    @rule(which=anything, slots=slot_lists, is_granted=st.booleans(), retries=budgets, overlap=overlaps)
    def route(self, which: int, slots: list[tuple[str, str]], is_granted: bool, retries: int, overlap: str) -> None:
        """Also of what was routed before, and of what ended long ago."""
        self._route(sorted(self.held)[which % len(self.held)], slots, is_granted, retries, overlap)

    def _route(
        self, message: str, slots: list[tuple[str, str]], is_granted: bool, retries: int, overlap: str = "allow"
    ) -> None:
        token = self._token()
        owed = [Inv(message, app, slot, due=self.now) for app, slot in slots]
        grant = None
        if is_granted:
            text = self._descriptor(owed[0], retries, overlap)
            owed, slots = owed[:1], slots[:1]
            grant = Grant(token=token, descriptor=text, revision="r1")
        order = self.desk.order(self.held[message], *slots, kind=Kind.EVENT, grant=grant)
        answers = self.desk.route(order, now_ms=self.now)
        if message in self.invs:
            assert answers == [["exists"]]
        else:
            self.invs[message] = owed
            assert answers == [[self._placed(inv, token, retries, is_granted, overlap) for inv in owed]]
        if message in self.pending:
            self.pending[message] = ROUTED

    def _placed(self, inv: Inv, token: str, retries: int, is_granted: bool, overlap: str) -> str:
        if self._is_obsolete(inv):
            self._finish(inv, "obsolete")
            return "obsolete"
        if not is_granted:
            return "ready"
        if inv.app == "mail" and self.pin not in {None, "r1"}:
            return "elsewhere"
        hindrance = self._overlap(inv, overlap)
        if hindrance is not None:
            if hindrance != "waiting":
                self._finish(inv, hindrance)
            return hindrance
        self._admit(inv, token, retries, overlap)
        self.claims.append(self._as_claim(inv))
        return "claimed"

    def _as_claim(self, inv: Inv) -> Claim:
        claim = self.desk.claimed(inv.message, app=inv.app, slot=inv.slot, token=inv.token, now_ms=self.now)
        assert claim.attempt == inv.made, "the same token asks again: no further attempt"
        return claim

    @precondition(lambda self: set(self.held) - set(self.invs))
    @rule(which=anything, is_dead=st.booleans())
    def route_to_nothing(self, which: int, is_dead: bool) -> None:
        unrouted = sorted(set(self.held) - set(self.invs))
        message = unrouted[which % len(unrouted)]
        order = RouteOrder(id=message, dead=("reason", "x")) if is_dead else RouteOrder(id=message, is_dropped=True)
        assert self.desk.route(order, now_ms=self.now) == [["dead" if is_dead else "dropped"]]
        self.buried_raw += is_dead
        self._leave_stream(message)
        del self.held[message]

    # --- attempts ---

    @precondition(lambda self: self.invs)
    @rule(
        which=anything,
        is_any=seldom,
        old=anything,
        is_reused=st.booleans(),
        retries=budgets,
        revision=st.sampled_from(["r1", "r2"]),
        overlap=overlaps,
        in_hand=seldom,
    )
    def claim(
        self,
        which: int,
        is_any: bool,
        old: int,
        is_reused: bool,
        retries: int,
        revision: str,
        overlap: str,
        in_hand: bool,
    ) -> None:
        """With a new token, or with one of an earlier claim whose reply may have been lost; at once, or `in_hand`."""
        inv = self._pick(which, is_any)
        earlier = [claim.token for claim in self.claims if self._find(claim) is inv]
        token = earlier[old % len(earlier)] if earlier and is_reused else self._token()
        wanted = self.desk.wanted(
            inv.message, app=inv.app, slot=inv.slot, token=token, retries=retries, revision=revision
        )
        object.__setattr__(wanted, "descriptor", self._descriptor(inv, retries, overlap))
        [answer] = self.desk.bid(Bid([wanted], int(not in_hand), int(in_hand)), now_ms=self.now)
        if inv.state == "claimed" and inv.token == token:
            assert isinstance(answer, Claim)
        elif inv.state != "ready":
            assert answer is ClaimRefusal.TAKEN
            return
        elif inv is not self.waiter and inv.due > self.now:
            assert answer is ClaimRefusal.LATER
            return
        elif in_hand and inv.made >= Descriptor.from_json(inv.pinned or wanted.descriptor).retries:
            assert answer is ClaimRefusal.LEFT
            return
        elif self._is_obsolete(inv):
            assert answer is ClaimRefusal.OBSOLETE
            self._finish(inv, "obsolete")
            return
        elif inv.pinned is None and inv.app == "mail" and self.pin not in {None, revision}:
            assert answer is ClaimRefusal.ELSEWHERE
            return
        elif (hindrance := self._overlap(inv, overlap)) is not None:
            assert answer is ClaimRefusal(hindrance)
            if hindrance != "waiting":
                self._finish(inv, hindrance)
            return
        else:
            self._admit(inv, token, retries, overlap)
        assert isinstance(answer, Claim)
        assert (answer.attempt, answer.descriptor.to_json(), answer.event) == (inv.made, inv.pinned, EVENT)
        self.claims.append(answer)

    @precondition(lambda self: self.claims)
    @rule(
        which=anything,
        is_any=seldom,
        outcome=st.sampled_from(["succeeded", "failed", "failed", "released"]),
        is_retryable=st.sampled_from([True, True, True, False]),
    )
    def end(self, which: int, is_any: bool, outcome: str, is_retryable: bool) -> None:
        """Of any claim ever made, also long after it was lost."""
        claim = self._pick_claim(which, is_any)
        inv = self._find(claim)
        told = claim if is_retryable else without_budget(claim)
        [answer] = self.desk.invocations.end([(told, attempt(outcome))], self.now)
        if (outcome, inv.state, inv.token, inv.made) == ("released", "ready", claim.token, claim.attempt - 1):
            assert answer == (EndVerdict.RELEASED, None), "the same again"
        elif inv.token != claim.token or inv.made != claim.attempt:
            assert answer == (EndVerdict.LOST, None)
        elif inv.state != "claimed":
            assert answer == (EndVerdict.AGAIN, inv.due if inv.state == "ready" else None)
        elif outcome == "released":
            assert answer == (EndVerdict.RELEASED, None)
            inv.state, inv.due = "ready", self.now
            inv.made -= 1
        elif outcome == "failed" and is_retryable and inv.made <= inv.retries:
            inv.state, inv.due = "ready", self.now + (1000 if inv.made == 1 else 2000)
            assert answer == (EndVerdict.RETRY, inv.due)
        else:
            assert answer == (EndVerdict.ENDED, None)
            self._finish(inv, outcome)

    @precondition(lambda self: self.invs)
    @rule(which=anything, is_any=seldom)
    def take_back(self, which: int, is_any: bool) -> None:
        inv = self._pick(which, is_any)
        answer = self.desk.take_back(inv.message, app=inv.app, slot=inv.slot, now_ms=self.now)
        self._taken_back(inv, answer)

    @rule()
    def sweep(self) -> None:
        expired = self.desk.invocations.expired(self.now)
        answers = self.desk.invocations.take_back(expired, by="w9", now_ms=self.now)
        found = {
            (app, message, slot.text): answer for (app, message, slot), answer in zip(expired, answers, strict=True)
        }
        lost = [inv for inv in self._all() if inv.state == "claimed" and inv.lease <= self.now]
        assert set(found) == {(inv.app, inv.message, inv.slot) for inv in lost}
        for inv in lost:
            self._taken_back(inv, found[inv.app, inv.message, inv.slot])

    def _taken_back(self, inv: Inv, answer: tuple[str, int]) -> None:
        if inv.state != "claimed":
            assert answer == ("gone", 0)
        elif inv.lease > self.now:
            assert answer == ("alive", 0)
        elif inv.made <= inv.retries:
            assert answer == ("ready", inv.made)
            inv.state, inv.token, inv.due = "ready", "", self.now
        else:
            assert answer == ("failed", inv.made)
            inv.token = ""
            self._finish(inv, "failed")

    @precondition(lambda self: self.invs)
    @rule(which=anything, is_any=seldom, after_ms=st.sampled_from([None, 0, 1000]))
    def abandon(self, which: int, is_any: bool, after_ms: int | None) -> None:
        """Somebody says that nobody can run it."""
        inv = self._pick(which, is_any)
        item = Stranded(app=inv.app, message=inv.message, slot=Slot(inv.slot))
        [answer] = self.strandings.abandon([item], by="w9", after_ms=after_ms, now_ms=self.now)
        if inv.state != "ready" or inv is self.waiter or inv.due > self.now:
            assert answer == ("gone", 0)
            return
        if self._is_obsolete(inv):
            assert answer == ("obsolete", 0)
            return
        since = max(inv.due, self.stranded.setdefault(inv.app, self.now))
        if after_ms is None or self.now - since < after_ms:
            assert answer == ("waits", since)
            return
        assert answer == ("failed", since)
        inv.token = ""
        self._finish(inv, "failed")

    @precondition(lambda self: self.claims)
    @rule(which=st.lists(st.tuples(anything, seldom), min_size=1, max_size=4))
    def renew(self, which: list[tuple[int, bool]]) -> None:
        claims = [self._pick_claim(number, is_any) for number, is_any in which]
        lost = self.desk.invocations.renew(claims, lease_ms=LEASE_MS, now_ms=self.now)
        expected = []
        for claim in claims:
            inv = self._find(claim)
            if inv.state == "claimed" and inv.token == claim.token:
                inv.lease = self.now + LEASE_MS
            else:
                expected.append(claim)
        assert lost == expected

    # --- the world ---

    @rule(ms=st.sampled_from([1, 999, 1000, 2000, LEASE_MS - 1, LEASE_MS]))
    def wait(self, ms: int) -> None:
        self.now += ms

    @rule()
    def vanish(self) -> None:
        """Every worker dies, and somebody sweeps when their leases have ended."""
        self.now += LEASE_MS
        self.sweep()

    @precondition(lambda self: self._in_state("ready"))
    @rule()
    def wait_until_due(self) -> None:
        self.now = max(self.now, *(inv.due for inv in self._in_state("ready")))

    @rule(pin=st.sampled_from([None, "r1", "r2"]))
    def pin_mail(self, pin: str | None) -> None:
        self.pin = pin
        if pin is None:
            self.client.hdel(self.desk.keys.pins, "mail")
        else:
            self.client.hset(self.desk.keys.pins, "mail", pin)

    @rule()
    def remove_or_restore_the_schedule(self) -> None:
        self.is_removed = not self.is_removed
        self._define("tombstone" if self.is_removed else "h0", self.gen)

    @rule(is_replayed=st.booleans())
    def lose_the_group(self, is_replayed: bool) -> None:
        self.client.xgroup_destroy(self.desk.keys.events, GROUP)
        self.pending.clear()
        self.unread = sorted(self.in_stream, key=_order)
        self.desk.stream.ensure_group()
        if is_replayed and self.unread:
            again = self.unread
            self.read("w2", len(again))
            for message in again:
                self._route(message, SLOTS[:1], False, 0)

    @precondition(lambda self: self.in_stream)
    @rule()
    def lose_the_stream(self) -> None:
        last = max(_order(message)[0] for message in self.in_stream)
        self.client.delete(self.desk.keys.events)
        self.pending.clear()
        self.unread.clear()
        self.in_stream.clear()
        self.desk.stream.ensure_group()
        # Ids start again from the clock: the next one must not be one of before.
        await_fact(lambda: _server_ms(self.client) > last, "the server's clock stands still")

    # --- what must hold after every step ---

    @invariant()
    def each_invocation_is_as_the_model_says(self) -> None:
        for inv in self._all():
            assert self.desk.state(inv.message, inv.app, inv.slot) == (inv.state, inv.made, inv.token)
            assert self.client.hget(self.desk.keys.invocations(inv.message), f"d:{inv.name}") == inv.pinned
            assert inv.pinned is None or inv.made <= inv.retries + 1

    @invariant()
    def ready_sets_leases_and_index_agree(self) -> None:
        keys = self.desk.keys
        index: dict[str, int] = {}
        for app in APPS:
            ready = {
                f"{inv.message}|{inv.slot}": inv.due
                for inv in self._in_state("ready")
                if inv.app == app and inv is not self.waiter
            }
            assert _scores(self.client, keys.ready_of(app)) == ready
            if ready:
                index[app] = min(ready.values())
        assert _scores(self.client, keys.ready) == index
        leases = {f"{inv.app}|{inv.message}|{inv.slot}": inv.lease for inv in self._in_state("claimed")}
        assert _scores(self.client, keys.leases) == leases

    @invariant()
    def one_run_holds_the_schedule_and_one_waits(self) -> None:
        kept: Any = self.client.hmget(self.desk.keys.schedule("shop", "nightly"), "holder", "waiter")
        named = [inv and f"{inv.message}|{inv.slot}" for inv in (self.holder, self.waiter)]
        assert kept == named
        # Nothing waits for a run that has ended, and nothing that asked to be alone runs beside another such.
        assert self.holder is None or self.holder.state in {"ready", "claimed"}
        assert self.waiter is None or (self.holder is not None and self.waiter.state == "ready")
        alone = [
            inv
            for inv in self._in_state("ready", "claimed")
            if inv.slot == "@nightly" and inv.pinned is not None and inv.overlap != "allow"
        ]
        assert len(alone) <= 1

    @invariant()
    def the_stream_holds_exactly_what_is_unfinished(self) -> None:
        assert set(self.desk.entries()) == self.in_stream
        assert self.desk.pending() == self.pending
        for message, invs in self.invs.items():
            is_over = all(inv.state in ENDED for inv in invs)
            assert message not in self.in_stream or not is_over
            key = self.desk.keys.invocations(message)
            assert self.client.hexists(key, "env") is not is_over
            assert (self.client.pttl(key) > 0) is is_over  # type: ignore[operator]

    @invariant()
    def what_is_stranded_is_marked_until_somebody_claims_of_it(self) -> None:
        assert self.strandings.marks() == self.stranded

    @invariant()
    def each_end_is_recorded_once(self) -> None:
        recorded = [(item["message"], app, slot) for app, slot in SLOTS for item in self._history(app, slot)]
        assert sorted(recorded) == sorted((inv.message, inv.app, inv.slot) for inv in self._in_state(*ENDED))
        letters = [(item["message"], item["app"], item["slot"]) for item in self.desk.dead_letters() if "app" in item]
        assert sorted(letters) == sorted((inv.message, inv.app, inv.slot) for inv in self._in_state("failed"))
        assert len(self.desk.dead_letters()) == len(letters) + self.buried_raw

    def _in_state(self, *states: str) -> list[Inv]:
        return [inv for inv in self._all() if inv.state in states]

    def _history(self, app: str, slot: str) -> list[dict[str, str]]:
        if slot.startswith("@"):
            return self.desk.history(schedule=slot[1:], app=app)
        return self.desk.history(handler=slot, app=app)


def _scores(client: redis.Redis, key: str) -> dict[str, int]:
    rows: Any = client.zrange(key, 0, -1, withscores=True)
    return {member: int(score) for member, score in rows}


def _order(message: str) -> tuple[int, int]:
    ms, _, number = message.partition("-")
    return int(ms), int(number)


def _server_ms(client: redis.Redis) -> int:
    seconds, micros = client.time()  # type: ignore[misc]
    return seconds * 1000 + micros // 1000


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_invocations_live_as_the_model_says(redis_client: redis.Redis) -> None:
    machine = type("BoundLifecycle", (Lifecycle,), {"client": redis_client})
    budget = settings(
        max_examples=25,
        stateful_step_count=40,
        deadline=None,
        print_blob=True,
        report_multiple_bugs=False,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=budget)
