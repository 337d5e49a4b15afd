"""The registry's one step: every verdict, what it writes, and that intervals follow one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.storedesk import APP, SCHEDULE, T0_MS

from relayctl.store.definitions import Mode, Proposal, Verdict

if TYPE_CHECKING:
    from support.storedesk import Desk

NAME = (APP, SCHEDULE)


def test_a_first_definition_is_created_from_now(desk: Desk) -> None:
    verdict, head = desk.register("h1", now_ms=T0_MS)
    assert verdict is Verdict.CREATED
    assert head is not None
    assert (head.gen, head.hash, head.spec, head.from_ms) == (1, "h1", "spec of h1", T0_MS)
    assert (head.floor, head.highest_published, head.paused_at) == (None, None, None)
    assert desk.definitions.heads([NAME, (APP, "other")]) == {NAME: head}
    assert desk.definitions.all_names() == {NAME}


def test_the_same_again_changes_nothing(desk: Desk) -> None:
    _, head = desk.register("h1")
    before = desk.contents()
    for mode in Mode:
        assert desk.register("h1", mode=mode, held=1, now_ms=T0_MS) == (Verdict.UNCHANGED, head)
    assert desk.contents() == before


def test_content_never_seen_wins_once_whoever_brings_it(desk: Desk) -> None:
    desk.register("h1", now_ms=T0_MS)
    verdict, head = desk.register("h2", held=0, now_ms=T0_MS + 5)
    assert verdict is Verdict.CHANGED
    assert head is not None
    assert (head.gen, head.hash, head.from_ms) == (2, "h2", T0_MS + 5)
    before = desk.contents()
    assert desk.register("h2", now_ms=T0_MS + 9) == (Verdict.UNCHANGED, head)
    assert desk.contents() == before


@pytest.mark.parametrize(
    ("mode", "held", "verdict"),
    [
        (Mode.START, 1, Verdict.BEHIND),
        (Mode.START, 2, Verdict.BEHIND),
        (Mode.EDIT, 1, Verdict.BEHIND),
        (Mode.EDIT, 0, Verdict.BEHIND),
        (Mode.EDIT, 2, Verdict.CHANGED),
        (Mode.ADOPT, 1, Verdict.BEHIND),
        (Mode.ADOPT, 2, Verdict.CHANGED),
    ],
)
def test_superseded_content_returns_only_from_the_head(desk: Desk, mode: Mode, held: int, verdict: Verdict) -> None:
    desk.register("h1")
    desk.register("h2")
    before = desk.contents()
    answer, head = desk.register("h1", mode=mode, held=held, now_ms=T0_MS)
    assert answer is verdict
    assert head is not None
    if verdict is Verdict.BEHIND:
        assert (head.gen, head.hash) == (2, "h2")
        assert desk.contents() == before
    else:
        assert (head.gen, head.hash, head.from_ms) == (3, "h1", T0_MS)


def test_a_lost_reply_of_a_revert_is_answered_by_the_head(desk: Desk) -> None:
    desk.register("h1")
    desk.register("h2")
    _, head = desk.register("h1", mode=Mode.EDIT, held=2, now_ms=T0_MS)
    assert desk.register("h1", mode=Mode.EDIT, held=2, now_ms=T0_MS + 1) == (Verdict.UNCHANGED, head)


def test_removing_what_nobody_registered(desk: Desk) -> None:
    for mode in Mode:
        assert desk.register("tombstone", mode=mode, spec="") == (Verdict.ABSENT, None)
    assert desk.contents() == {}


def test_a_start_never_removes(desk: Desk) -> None:
    desk.register("h1")
    before = desk.contents()
    for held in (0, 1):
        assert desk.remove(held, mode=Mode.START) is Verdict.BEHIND
    assert desk.contents() == before


@pytest.mark.parametrize("mode", [Mode.EDIT, Mode.ADOPT])
def test_a_removal_by_a_holder_of_the_head(desk: Desk, mode: Mode) -> None:
    desk.register("h1")
    assert desk.remove(0, mode=mode) is Verdict.BEHIND
    assert desk.remove(1, mode=mode) is Verdict.REMOVED
    assert desk.definitions.all_names() == set()
    before = desk.contents()
    assert desk.remove(1, mode=mode) is Verdict.UNCHANGED
    assert desk.contents() == before
    kept_ms = desk.client.pttl(desk.keys.schedule(*NAME))
    assert 29 * 24 * 3600 * 1000 < kept_ms <= 30 * 24 * 3600 * 1000  # type: ignore[operator]


def test_written_again_after_its_removal(desk: Desk) -> None:
    desk.register("h1")
    desk.remove(1)
    assert desk.register("h1")[0] is Verdict.BEHIND, "a restart with old files brings nothing back"
    verdict, head = desk.register("h1", mode=Mode.EDIT, held=2, now_ms=T0_MS)
    assert verdict is Verdict.CHANGED
    assert head is not None and head.gen == 3
    assert desk.client.pttl(desk.keys.schedule(*NAME)) == -1, "what is in force does not expire"
    assert desk.definitions.all_names() == {NAME}


def test_new_content_after_a_removal_needs_no_holder(desk: Desk) -> None:
    desk.register("h1")
    desk.remove(1)
    assert desk.register("h2", now_ms=T0_MS)[0] is Verdict.CHANGED
    assert desk.definitions.all_names() == {NAME}


def test_intervals_follow_one_another_even_when_the_clock_steps_back(desk: Desk) -> None:
    for number, now_ms in enumerate([T0_MS, T0_MS + 50, T0_MS - 5000, T0_MS + 80], 1):
        desk.register(f"h{number}", now_ms=now_ms)
    kept = desk.definitions.generations(*NAME)
    assert [item.gen for item in kept] == [1, 2, 3, 4]
    assert [item.to_ms for item in kept] == [item.from_ms for item in kept[1:]] + [None]
    assert [item.from_ms for item in kept] == sorted(item.from_ms for item in kept)


def test_a_spec_comes_back_as_it_was_given(desk: Desk) -> None:
    spec = '{"cron":"0 3 * * *|","x":"line\nline","ü":"|1|2|"}'
    desk.register("h1", spec=spec, now_ms=T0_MS)
    desk.register("h2", now_ms=T0_MS + 1)
    assert [item.spec for item in desk.definitions.generations(*NAME)] == [spec, "spec of h2"]
    assert desk.publish(T0_MS // 1000, gen=1).verdict.value == "published"


def test_64_past_generations_are_kept_and_older_content_counts_as_new(desk: Desk) -> None:
    for number in range(1, 68):
        desk.register(f"h{number}", now_ms=T0_MS + number)
    kept = desk.definitions.generations(*NAME)
    assert [item.gen for item in kept] == list(range(3, 68))
    assert desk.register("h3", now_ms=T0_MS + 99)[0] is Verdict.BEHIND
    assert desk.register("h2", now_ms=T0_MS + 99)[0] is Verdict.CHANGED


def test_forgetting_an_old_generation_spares_content_that_came_back(desk: Desk) -> None:
    desk.register("h0", now_ms=T0_MS)
    desk.register("h1", now_ms=T0_MS)
    desk.register("h0", mode=Mode.EDIT, held=2, now_ms=T0_MS)
    for number in range(4, 67):
        desk.register(f"h{number}", now_ms=T0_MS + number)
    assert desk.definitions.generations(*NAME)[0].gen == 2
    assert desk.register("h0", now_ms=T0_MS + 99)[0] is Verdict.BEHIND, "generation 3 still has it"


def test_the_change_log_tells_what_changed_since(desk: Desk) -> None:
    assert desk.definitions.seq() == 0
    desk.register("h1")
    desk.register("h1", schedule="hourly")
    desk.register("h1")
    assert desk.definitions.seq() == 2
    assert desk.definitions.changes_since(0) == [(APP, "hourly"), NAME]
    assert desk.definitions.changes_since(1) == [(APP, "hourly")]
    assert desk.definitions.changes_since(2) == []
    desk.client.xtrim(desk.keys.definitions_log, maxlen=1, approximate=False)
    assert desk.definitions.changes_since(0) is None, "the log does not reach back so far"
    desk.client.delete(desk.keys.definitions_log, desk.keys.definitions_seq)
    assert desk.definitions.changes_since(2) is None, "another server"


def test_many_proposals_are_answered_in_order(desk: Desk) -> None:
    proposals = [
        Proposal(app=APP, schedule=f"s{number}", mode=Mode.START, hash=f"h{number}", spec="{}")
        for number in range(1200)
    ]
    answers = desk.definitions.register(proposals)
    assert [head.schedule for _, head in answers if head is not None] == [item.schedule for item in proposals]
    assert {verdict for verdict, _ in answers} == {Verdict.CREATED}
    heads = desk.definitions.heads((APP, item.schedule) for item in proposals)
    assert {name: head.hash for name, head in heads.items()} == {(APP, item.schedule): item.hash for item in proposals}


def test_what_a_removed_schedule_published_goes_with_it_unless_it_comes_back(desk: Desk) -> None:
    desk.register("h1")
    desk.publish()
    published = desk.keys.published(APP, SCHEDULE)
    assert desk.client.pttl(published) == -1
    desk.remove(1)
    ends = [desk.client.pexpiretime(key) for key in (published, desk.keys.schedule(APP, SCHEDULE))]
    assert 0 < ends[0] <= ends[1]  # type: ignore[operator]
    desk.register("h1", mode=Mode.EDIT, held=2)
    assert desk.client.pttl(published) == -1
