"""Armed schedules: timers that stay, swaps that owe, removals that finish what is due, and the order of the heap."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from support.workbench import T0, every, generation

from relayctl.core.definition import Generation
from relayctl.core.model import CatchUp
from relayctl.worker.agenda import Agenda, Armed, Job, Pause

T0_MS = T0 * 1000


def armed(*generations: Generation, name: str = "tick", settled_until: int = T0, **changes: Any) -> Armed:
    known = Armed(
        app="app",
        schedule=name,
        handler="jobs.run",
        jitter=timedelta(0),
        catch_up=CatchUp.LATEST,
        generations=generations or (generation(every(60), T0 - 1000),),
        settled_until=settled_until,
    )
    return replace(known, **changes)


def agenda(delay_ms: int = 0) -> Agenda:
    return Agenda(lambda _job: delay_ms)


def instants(job: Job, now: int) -> list[tuple[int, int]]:
    return [(at - T0, item.gen) for at, item in job.take(now * 1000).firings]


def test_what_is_due_comes_in_order_and_once() -> None:
    book = agenda()
    book.arm(armed(generation(every(60), T0 - 1000), name="slow"))
    book.arm(armed(generation(every(1), T0 - 1000), name="fast"))
    assert book.next_due_ms() == T0_MS + 1000
    assert [job.schedule for job in book.pop_due(T0_MS + 60_000, 10)] == ["fast", "slow"]
    assert book.pop_due(T0_MS + 60_000, 10) == []
    assert book.next_due_ms() is None


def test_an_early_wake_finds_nothing() -> None:
    book = agenda()
    book.arm(armed())
    assert book.pop_due(T0_MS + 59_998, 10) == []
    [job] = book.pop_due(T0_MS + 60_001, 10)
    assert instants(job, T0 + 60) == [(60, 1)]
    job.cursor = T0 + 60
    book.plan(job)
    assert job.next_at == T0 + 120


def test_arming_the_same_again_or_with_another_handler_leaves_the_timer() -> None:
    book = agenda()
    job = book.arm(armed())
    stamp = job.stamp
    again = book.arm(armed(handler="jobs.other", catch_up=CatchUp.ALL, settled_until=T0 + 7))
    assert again is job
    assert (job.stamp, job.handler, job.catch_up, job.cursor) == (stamp, "jobs.other", CatchUp.ALL, T0)


def test_a_new_definition_takes_over_where_the_old_one_ends() -> None:
    book = agenda()
    job = book.arm(armed(generation(every(2), T0 - 1000)))
    book.arm(armed(generation(every(1), T0 + 4, gen=2)))
    assert instants(job, T0 + 6) == [(2, 1), (4, 2), (5, 2), (6, 2)]


def test_a_registry_that_begins_again_ends_what_was_known() -> None:
    book = agenda()
    job = book.arm(armed(generation(every(2), T0 - 1000, gen=5)))
    book.arm(armed(generation(every(1), T0 + 4, gen=1)))
    assert instants(job, T0 + 6) == [(4, 1), (5, 1), (6, 1)]


def test_what_the_registry_says_of_the_past_replaces_what_was_known() -> None:
    book = agenda()
    job = book.arm(armed(generation(every(1), T0 - 1000, gen=1)))
    # Two edits happened at once, and this worker heard of the second alone: it holds generation 1 for too long.
    book.arm(armed(generation(every(10), T0 + 4, gen=3)))
    assert (3, 1) in instants(job, T0 + 10)
    whole = (
        generation(every(1), T0 - 1000, T0 + 1, gen=1),
        generation(every(10), T0 + 1, T0 + 4, gen=2),
        generation(every(10), T0 + 4, gen=3),
    )
    book.arm(armed(*whole, is_whole=True))
    assert instants(job, T0 + 20) == [(10, 3), (20, 3)]
    stamp = job.stamp
    book.arm(armed(*whole, is_whole=True))
    assert job.stamp == stamp


def test_a_retired_job_gives_what_it_owes_and_is_forgotten() -> None:
    book = agenda()
    job = book.arm(armed(generation(every(1), T0 - 1000)))
    book.retire(job.name, T0_MS + 2500)
    assert instants(job, T0 + 9) == [(1, 1), (2, 1)]
    job.cursor = T0 + 9
    book.plan(job)
    assert book.get(job.name) is None
    assert len(book) == 0


def test_a_retired_job_that_is_armed_again_goes_on() -> None:
    book = agenda()
    job = book.arm(armed(generation(every(1), T0 - 1000)))
    book.retire(job.name, T0_MS + 2500)
    book.arm(armed(generation(every(1), T0 + 5, gen=3)))
    assert instants(job, T0 + 6) == [(1, 1), (2, 1), (5, 3), (6, 3)]


def test_a_dropped_job_never_fires() -> None:
    book = agenda()
    job = book.arm(armed())
    book.drop(job.name)
    assert book.pop_due(T0_MS + 10**9, 10) == []
    assert book.next_due_ms() is None


def test_jitter_moves_when_it_is_due_and_not_which_instant_it_is() -> None:
    book = agenda()
    job = book.arm(armed(generation(every(60), T0 - 1000), jitter=timedelta(seconds=20)))
    due = job.due_ms(T0 + 60)
    assert T0_MS + 60_000 <= due < T0_MS + 80_000
    assert book.next_due_ms() == due
    assert job.take(due - 1).firings == ()
    assert [at for at, _ in job.take(due).firings] == [T0 + 60]
    # What is not ripe yet keeps the cursor before it.
    assert job.take(due - 1).cursor < T0 + 60


def test_a_later_rank_acts_later() -> None:
    book = agenda(delay_ms=400)
    book.arm(armed())
    assert book.next_due_ms() == T0_MS + 60_400


def test_a_gap_that_the_machine_slept_through_goes_by_the_policy() -> None:
    book = agenda()
    job = book.arm(armed(generation(every(60), T0 - 1000), catch_up=CatchUp.OLDEST))
    due = job.take(T0_MS + 8 * 3_600_000)
    assert due.is_catch_up
    assert [at for at, _ in due.firings] == [T0 + 60]
    assert due.passed_over == ((T0 + 120, T0 + 8 * 3600),)


def test_a_paused_job_is_not_looked_at_until_it_is_resumed() -> None:
    book = agenda()
    job = book.arm(armed(generation(every(1), T0 - 1000)))
    book.arm(armed(generation(every(1), T0 - 1000), pause=Pause(T0 + 5)))
    assert (job.next_at, book.next_due_ms()) == (T0 + 1, T0_MS + 1000)
    due = job.take((T0 + 8) * 1000)
    assert [at - T0 for at, _ in due.firings] == [1, 2, 3, 4], "what was due before it is still owed"
    job.cursor = due.cursor
    book.plan(job)
    assert (job.next_at, book.next_due_ms()) == (None, None)
    assert book.pop_due(T0_MS + 10_000_000, 10) == []
    # Resumed an hour later: the floor says that nothing up to then is owed, so there is no gap to catch up.
    book.arm(armed(generation(every(1), T0 - 1000), floor=T0 + 3600))
    assert (job.cursor, job.next_at, book.next_due_ms()) == (T0 + 3600, T0 + 3601, T0_MS + 3_601_000)


def test_a_pause_with_an_end_is_slept_through_and_is_no_gap() -> None:
    book = agenda()
    job = book.arm(armed(generation(every(1), T0 - 1000), pause=Pause(T0 + 1, T0 + 7200), catch_up=CatchUp.NONE))
    assert (job.next_at, book.next_due_ms()) == (T0 + 7200, T0_MS + 7_200_000)
    assert job.take((T0 + 7199) * 1000).firings == ()
    due = job.take((T0 + 7201) * 1000)
    assert [at - T0 for at, _ in due.firings] == [7200, 7201]
    assert (due.is_catch_up, due.passed_over) == (False, ())


def test_catch_up_leaves_what_a_pause_covers_to_the_pause() -> None:
    job = agenda().arm(armed(generation(every(60), T0 - 1000), pause=Pause(T0 + 600, T0 + 1200)))
    due = job.take((T0 + 1810) * 1000)
    assert [at - T0 for at, _ in due.firings] == [1800]
    assert [(first - T0, last - T0) for first, last in due.passed_over] == [(60, 599), (1200, 1740)]
    still = replace(job, pause=Pause(T0 + 600)).take((T0 + 1810) * 1000)
    assert still.firings == ()
    assert [(first - T0, last - T0) for first, last in still.passed_over] == [(60, 599)]
    assert set(still.passed_because) == {"catch_up: latest"}


def test_a_definition_that_begins_before_the_cursor_owes_from_its_beginning() -> None:
    """The broker's time was set back, and then somebody edited the schedule."""
    book = agenda()
    job = book.arm(armed(generation(every(3600), T0 - 7200)))
    job.cursor = T0 + 900
    book.arm(armed(generation(every(60), T0 + 300, gen=2)))
    assert (job.cursor, job.next_at) == (T0 + 299, T0 + 300)
    book.arm(armed(generation(every(60), T0 + 300, gen=2), jitter=timedelta(seconds=5)))
    assert job.cursor == T0 + 299


def test_a_spread_longer_than_a_minute_is_no_lateness() -> None:
    hourly = generation(every(3600), T0 - 7200)
    job = agenda().arm(armed(hourly, jitter=timedelta(minutes=25), catch_up=CatchUp.NONE, settled_until=T0 - 1))
    at = job.next_at
    assert at is not None
    due_ms = job.due_ms(at)
    assert due_ms - at * 1000 > 60_000
    assert job.take(due_ms - 1).firings == ()
    found = job.take(due_ms)
    assert [instant for instant, _ in found.firings] == [at]
    assert (found.is_catch_up, found.passed_over) == (False, ())
    late = job.take(due_ms + 61_000)
    assert (late.firings, late.passed_over) == ((), ((at, at),))
