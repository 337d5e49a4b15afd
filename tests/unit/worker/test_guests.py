"""Runs that somebody asks a worker for: exactly one result each, in order, and a fair share of the places."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from relayctl.errors import RequestRejected
from relayctl.host.requests import Printed, Result
from relayctl.runners.invocation import Ended, Outcome, Run
from relayctl.worker.guests import Guest, Guests, Turns

_NUMBERS = count()


def _run(app: str = "app") -> Run:
    return Run(
        key=f"invoke-{next(_NUMBERS)}|jobs.run",
        app=app,
        handler="jobs.run",
        stdin=b"{}",
        variables={},
        timeout_s=1.0,
        label="app/jobs.run",
    )


def _ended(run: Run, outcome: Outcome = Outcome.SUCCEEDED) -> Ended:
    return Ended(run=run, outcome=outcome, reason="", started_at=0.0, finished_at=1.0)


def _report(ended: Ended) -> Result:
    if ended.outcome is Outcome.LOST:
        raise ZeroDivisionError
    return Result(is_ok=ended.outcome is Outcome.SUCCEEDED, document={"outcome": ended.outcome.value})


def _told(guest: Guest) -> list[str]:
    """What the one who waits hears, without waiting for more."""
    told = []
    for event in guest.events(0.001):
        if event is None:
            break
        told.append(event if isinstance(event, str) else type(event).__name__)
    return told


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "submit", "begin", "end", "fail", "crash", "lose", "leave", "print", "close"]),
        st.integers(0, 5),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS)
def test_whatever_happens_each_accepted_run_has_exactly_one_result(steps: list[tuple[str, int]]) -> None:
    guests = Guests(lambda: None, capacity=3)
    accepted: list[Guest] = []
    begun: list[Run] = []
    is_closed = False
    for what, n in steps:
        if what == "submit":
            try:
                accepted.append(guests.submit(_run(f"app-{n % 2}"), _report))
            except RequestRejected as refusal:
                assert refusal.reason == ("closing" if is_closed else "full")
        elif what == "begin":
            app = f"app-{n % 2}"
            run = guests.begin(app)
            waited = [guest.run for guest in accepted if guest.run.app == app]
            if run is not None:
                assert run.app == app and [item for item in waited if item in begun or item == run][-1] == run
                begun.append(run)
        elif what in {"end", "fail", "crash"} and begun:
            outcome = {"end": Outcome.SUCCEEDED, "fail": Outcome.FAILED, "crash": Outcome.LOST}[what]
            guests.end(_ended(begun[n % len(begun)], outcome))
        elif what == "lose" and begun:
            guests.lose(begun[n % len(begun)], RuntimeError("the payload"))
        elif what == "leave" and accepted:
            accepted[n % len(accepted)].leave()
        elif what == "print" and begun:
            guests.print(begun[n % len(begun)], "stdout", "a line")
        elif what == "close":
            guests.close()
            is_closed = True
    guests.abandon()
    for guest in accepted:
        told = _told(guest)
        assert told.count("Result") == 1 and told[0] == "queued" and told[-1] == "Result"
        assert told.count("started") == (guest.run in begun)
    assert guests.count() == 0 and guests.apps() == []


def test_apps_wait_for_their_own_places_and_each_in_order() -> None:
    guests = Guests(lambda: None)
    first, second, other = _run("busy"), _run("busy"), _run("free")
    for run in (first, second, other):
        guests.submit(run, _report)
    assert guests.apps() == ["busy", "free"]
    assert guests.begin("free") == other
    assert (guests.begin("busy"), guests.begin("busy"), guests.begin("busy")) == (first, second, None)


def test_who_left_before_the_begin_is_not_run_and_who_left_after_it_is() -> None:
    guests = Guests(lambda: None)
    early, late = guests.submit(_run(), _report), guests.submit(_run(), _report)
    early.leave()
    assert guests.begin("app") == late.run
    late.leave()
    guests.print(late.run, "stdout", "to nobody")
    assert guests.end(_ended(late.run)) and not guests.end(_ended(late.run))
    assert _told(early) == ["queued", "Result"]
    assert _told(late) == ["queued", "started", "Result"]


def test_lines_are_handed_on_together_within_a_size() -> None:
    guests = Guests(lambda: None)
    guest = guests.submit(_run(), _report)
    guests.begin("app")
    for _ in range(10):
        guests.print(guest.run, "stderr", "x" * 8000)
    guests.end(_ended(guest.run))
    events = list(guest.events(1))
    pieces = [event for event in events if isinstance(event, Printed)]
    assert sum(len(piece.lines) for piece in pieces) == 10
    assert all(len(piece.lines) <= 5 for piece in pieces)
    assert isinstance(events[-1], Result) and events[-1].document == {"outcome": "succeeded"}


def test_results_under_many_threads() -> None:
    news, reached = threading.Event(), threading.Event()
    guests, accepted, refused = Guests(news.set, capacity=4), [], Counter[str]()
    lock = threading.Lock()

    def ask() -> None:
        while True:
            try:
                guest = guests.submit(_run(), _report)
            except RequestRejected as refusal:
                with lock:
                    refused[refusal.reason] += 1
                if refusal.reason == "closing":
                    return
                reached.wait(0.001)
            else:
                with lock:
                    accepted.append(guest)
                if len(accepted) % 3 == 0:
                    guest.leave()
                if len(accepted) >= 60:
                    reached.set()

    def serve() -> None:
        while not refused["closing"]:
            news.wait(0.01)
            news.clear()
            while (run := guests.begin("app")) is not None:
                guests.end(_ended(run))
        guests.abandon()

    threads = [threading.Thread(target=each) for each in (ask, ask, ask, serve)]
    for thread in threads:
        thread.start()
    assert reached.wait(30)
    guests.close()
    for thread in threads:
        thread.join(30)
    assert all(_told(guest).count("Result") == 1 for guest in accepted)
    assert set(refused) <= {"full", "closing"}


def test_neither_side_starves_where_both_wait() -> None:
    """A place is freed at a time; either side takes what the other leaves it."""
    turns, got = Turns(), Counter[str]()
    turns.starve(["app"])
    for _ in range(100):
        free = 1
        stream_first = got.total() % 3 == 0
        for side in ("stream", "guest") if stream_first else ("guest", "stream"):
            kept = turns.kept_for_guest("app", is_waiting=True) if side == "stream" else turns.kept_for_stream("app")
            if free - kept > 0:
                got[side] += free
                free = 0
                (turns.took_stream if side == "stream" else turns.took_guest)("app")
        assert free == 0, "a free place is left to nobody"
    assert got["guest"] == got["stream"] == 50


def test_alone_each_side_gets_all_there_is() -> None:
    turns = Turns()
    turns.took_guest("app")
    assert turns.kept_for_stream("app") == 0, "no work of the stream waits"
    turns.took_stream("app")
    assert turns.kept_for_guest("app", is_waiting=False) == 0, "no guest waits"
