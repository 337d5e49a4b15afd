"""What an audit makes of a published set: holes, waits that end, and what may be dropped."""

from __future__ import annotations

from support.workbench import cron, every, generation

from relayctl.core.account import (
    KEPT_FIRINGS,
    KEPT_FOR_S,
    UNPUBLISHED_OLD,
    UNPUBLISHED_OVERTAKEN,
    Recorded,
    Span,
    examine,
    reason_words,
    release,
    span_between,
)
from relayctl.core.due import Timeline

T0 = 1_800_000_000
MINUTELY = Timeline([generation(every(60), T0 - 86_400)])


def minutes(first: int, last: int) -> list[int]:
    return list(range(T0 + 60 * first, T0 + 60 * last + 1, 60))


def published(*instants: int) -> dict[str, str]:
    return {str(at): "p|w1|1-0" for at in instants}


def test_all_accounted_for_settles_up_to_the_end() -> None:
    recorded = Recorded.of(published(*minutes(1, 10)))
    found = examine(MINUTELY, recorded, after=T0, until=T0 + 630, now=T0 + 700)
    assert (found.overdue, found.lost, found.settled_until) == ((), (), T0 + 630)


def test_a_range_stands_for_every_firing_in_it() -> None:
    fields = published(*minutes(6, 10)) | {f"{T0 + 60}-{T0 + 300}": "c|missed|horizon"}
    recorded = Recorded.of(fields)
    assert examine(MINUTELY, recorded, after=T0, until=T0 + 600, now=T0 + 700).overdue == ()
    assert recorded.value_at(T0 + 120) == "c|missed|horizon"
    assert recorded.value_at(T0 + 360) == "p|w1|1-0"
    assert recorded.value_at(T0) is None


def test_a_hole_holds_the_settled_mark_below_it() -> None:
    recorded = Recorded.of(published(*minutes(1, 4), *minutes(6, 10)))
    found = examine(MINUTELY, recorded, after=T0, until=T0 + 600, now=T0 + 700)
    assert (found.overdue, found.settled_until) == ((T0 + 300,), T0 + 299)
    assert release(recorded, floor=None, settled_until=found.settled_until, now=T0 + 8 * 86_400) is not None
    dropped = release(recorded, floor=None, settled_until=found.settled_until, now=T0 + 8 * 86_400)
    assert dropped is not None
    assert (dropped.floor, len(dropped.dropped)) == (T0 + 240, 4)


def test_the_wait_ends_by_age_or_by_number_and_not_one_too_early() -> None:
    nothing = Recorded.of({})
    firings = minutes(1, KEPT_FIRINGS + 1)
    found = examine(MINUTELY, nothing, after=T0, until=firings[-1], now=firings[-1] + 60)
    assert found.lost == ((firings[0], UNPUBLISHED_OVERTAKEN),)
    assert found.overdue == tuple(firings[1:])
    daily = Timeline([generation(every(86_400), T0 - 86_400 * 20)])
    at = T0 - T0 % 86_400
    for age, lost in ((KEPT_FOR_S - 1, ()), (KEPT_FOR_S, ((at, UNPUBLISHED_OLD),))):
        assert examine(daily, nothing, after=at - 1, until=at, now=at + age).lost == lost


def test_what_is_dropped_is_the_surplus_and_what_is_old() -> None:
    recorded = Recorded.of(published(*minutes(1, KEPT_FIRINGS)))
    assert release(recorded, floor=None, settled_until=T0 + 10**6, now=T0 + 10**4) is None
    recorded = Recorded.of(published(*minutes(1, KEPT_FIRINGS + 1)))
    able = release(recorded, floor=None, settled_until=T0 + 10**6, now=T0 + 10**4)
    assert able is not None
    assert able.floor == T0 + 60 * len(able.dropped)
    assert KEPT_FIRINGS + 1 - len(able.dropped) <= KEPT_FIRINGS
    aged = release(recorded, floor=None, settled_until=T0 + 10**6, now=T0 + 60 * 100 + KEPT_FOR_S)
    assert aged is not None
    assert len(aged.dropped) == 100


def test_an_instant_inside_a_range_outlives_the_range() -> None:
    """The range would speak for it, and an operator could run again what was published."""
    fields = published(T0 + 120) | {f"{T0 + 60}-{T0 + 600}": "c|missed|horizon"} | published(*minutes(11, 160))
    order = [name for _, name in Recorded.of(fields).ends()]
    assert order[:2] == [f"{T0 + 60}-{T0 + 600}", str(T0 + 120)]
    able = release(Recorded.of(fields), floor=None, settled_until=T0 + 599, now=T0 + 10**4)
    assert able is None, "the range reaches beyond what is settled"


def test_the_floor_never_goes_down() -> None:
    able = release(
        Recorded.of(published(*minutes(1, 200))), floor=T0 + 10**5, settled_until=T0 + 10**6, now=T0 + 20_000
    )
    assert able is not None
    assert able.floor == T0 + 10**5


def test_spans_count_without_going_through_them() -> None:
    changing = Timeline(
        [
            generation(every(1), T0 - 86_400 * 400, T0),
            generation(cron("*/10 * * * *"), T0, gen=2),
        ]
    )
    first = T0 - 86_400 * 365
    assert span_between(changing, first, T0 - 1) == Span(first=first + 1, last=T0 - 1, count=86_400 * 365 - 1)
    span = span_between(changing, T0 - 3, T0 + 3600)
    assert span is not None
    assert span.count == 2 + len([at for at in range(T0, T0 + 3601) if at % 600 == 0])
    assert span_between(changing, T0 + 1, T0 + 2) is None


def test_every_reason_has_words() -> None:
    reasons = ["horizon", UNPUBLISHED_OLD, UNPUBLISHED_OVERTAKEN, "poison", "outbox full", "state lost"]
    reasons += [f"catch_up: {name}" for name in ("latest", "oldest", "all", "none")]
    assert all(reason_words(reason) != reason for reason in reasons)
    assert reason_words("of a newer peer") == "of a newer peer"
