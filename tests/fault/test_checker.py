"""The judge of fault runs finds every kind of defect in an account made by hand, and none in a clean one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.nemesis.checker import RULES, check
from support.nemesis.plan import LONG_OUTAGE_S, timetable
from support.nemesis.plays import PROVOCATIONS
from support.nemesis.story import (
    FLEET,
    Account,
    Edit,
    Emitted,
    Ended,
    Generation,
    Ledger,
    Letter,
    Line,
    Paused,
    Story,
    Trouble,
)

pytestmark = pytest.mark.fault
START = 1_800_000_000
NAME = ("app", "tick")
RULE = ("app", "jobs.on_event")
UNTIL = START + 20
Change = Callable[[Story], Story]


def message(at: float) -> str:
    return f"{int(at * 1000)}-0"


def ran(at: int, **changes: Any) -> Ended:
    """The record of a firing that ran well."""
    fields: dict[str, Any] = {"verdict": "succeeded", "message": message(at), "at": at, "attempts": 1, "allowed": 5}
    return Ended(**{**fields, "written": at + 0.3, **changes})


def line(what: str, at: float, of: int, attempt: int = 1, worker: int = 1, slot: str = "@tick") -> Line:
    return Line(what=what, at=at, app="app", slot=slot, message=message(of), attempt=attempt, worker=worker)


def clean() -> Story:
    """Every two seconds, then every five; one event. Two workers, one of them killed for a while."""
    firings = [*range(START + 2, START + 11, 2), START + 15, START + 20]
    ledger = Ledger(
        generations=(
            Generation(gen=1, every=2, from_ms=START * 1000 + 500, to_ms=START * 1000 + 11_000),
            Generation(gen=2, every=5, from_ms=START * 1000 + 11_000, to_ms=None),
        ),
        highest=UNTIL,
        published={at: message(at) for at in firings},
        records=[ran(at) for at in firings],
    )
    event = Ended(verdict="succeeded", message="5-5", kind="event", attempts=1, allowed=5, written=START + 3.0)
    lines = [part for at in firings for part in (line("begin", at + 0.1, at), line("end", at + 0.2, at))]
    on_event = [replace(part, slot=RULE[1], message="5-5") for part in lines[:2]]
    account = Account(ledgers={NAME: ledger}, events={RULE: [event]}, added=len(firings) + 1)
    return Story(
        edits=[
            Edit(name=NAME, every=2, begun=START + 0.1, saved=START + 0.2),
            Edit(name=NAME, every=5, begun=START + 10.7, saved=START + 10.8),
        ],
        pauses=[],
        troubles=[Trouble(kind="down", worker="w2", start=START + 4.0, end=START + 7.0)],
        emitted=[Emitted(message="5-5", rules=(RULE,))],
        triggered=[],
        lines=[*lines, *on_event],
        account=account,
        workers=["w1", "w2"],
        pids={1: "w1", 2: "w2"},
        attempts={("app", "@tick"): 5, RULE: 5},
        faulty=frozenset(),
        begun=START,
        until=UNTIL,
    )


def ledger_of(story: Story) -> Ledger:
    return story.account.ledgers[NAME]


def rules_of(story: Story) -> list[str]:
    return sorted({finding.rule for finding in check(story)})


def unpublished(story: Story, at: int) -> None:
    """As if nobody had ever published that firing."""
    ledger_of(story).published.pop(at)
    ledger_of(story).records[:] = [record for record in ledger_of(story).records if record.at != at]
    story.account.added -= 1


def without_lines(story: Story, at: int) -> Story:
    return replace(story, lines=[part for part in story.lines if part.message != message(at)])


def test_a_clean_account_raises_nothing() -> None:
    assert [str(finding) for finding in check(clean())] == []


def lost(story: Story) -> Story:
    unpublished(story, START + 6)
    return without_lines(story, START + 6)


def below_the_floor(story: Story) -> Story:
    ledger_of(story).floor = START + 6
    return lost(story)


def closed_for_no_reason(story: Story) -> Story:
    ledger_of(story).closed[START + 6] = ("missed", "catch_up: latest")
    return lost(story)


def closed_after_publication(story: Story) -> Story:
    ledger_of(story).closed[START + 6] = ("missed", "catch_up: latest")
    return story


def two_verdicts(story: Story) -> Story:
    ledger_of(story).records.append(Ended(verdict="missed", reason="catch_up: latest", at=START + 6))
    return story


def overwritten(story: Story) -> Story:
    ledger_of(story).odd[START + 6] = "was published, and is closed now"
    return story


def wrong_count(story: Story) -> Story:
    ledger_of(story).records.append(Ended(verdict="missed", at=START + 8, first=START + 4, count=2))
    return story


def between_firings(story: Story) -> Story:
    return published_too(story, START + 7)


def before_registering(story: Story) -> Story:
    ledger = ledger_of(story)
    ledger.generations = (replace(ledger.generations[0], from_ms=START * 1000 + 2_100), *ledger.generations[1:])
    return story


def in_a_pause(story: Story) -> Story:
    pause = Paused(name=NAME, asked=START + 3.0, told=START + 3.1, resume_asked=START + 7.0, resume_told=START + 7.1)
    return replace(story, pauses=[pause])


def never_said(story: Story) -> Story:
    head = ledger_of(story).generations[1]
    ledger_of(story).generations = (*ledger_of(story).generations[:1], replace(head, every=10))
    unpublished(story, START + 15)
    return without_lines(story, START + 15)


def published_too(story: Story, *firings: int) -> Story:
    """As if these had been published and had run, too."""
    for at in firings:
        ledger_of(story).published[at] = message(at)
        ledger_of(story).records.append(ran(at))
    story.account.added += len(firings)
    more = [part for at in firings for part in (line("begin", at + 0.1, at), line("end", at + 0.2, at))]
    return replace(story, lines=[*story.lines, *more])


def not_in_time(story: Story) -> Story:
    """The save is not taken over although a worker had enough quiet seconds."""
    unpublished(story, START + 15)
    ledger_of(story).generations = (replace(ledger_of(story).generations[0], to_ms=None),)
    edits = [story.edits[0], Edit(name=NAME, every=5, begun=START + 0.5, saved=START + 0.6)]
    changed = published_too(without_lines(story, START + 15), *range(START + 12, START + 19, 2))
    return replace(changed, edits=edits)


def overlapping_generations(story: Story) -> Story:
    first, head = ledger_of(story).generations
    ledger_of(story).generations = (replace(first, to_ms=START * 1000 + 11_500), head)
    return story


def one_entry_more(story: Story) -> Story:
    story.account.added += 1
    return story


def gone_without_end(story: Story) -> Story:
    story.account.unended[message(START + 6)] = START + 6.5
    return story


def no_verdict(story: Story) -> Story:
    ledger_of(story).records[:] = [record for record in ledger_of(story).records if record.at != START + 6]
    return story


def ended_twice(story: Story) -> Story:
    ledger_of(story).records.append(ran(START + 6))
    return story


def ended_by_nobody(story: Story) -> Story:
    ledger_of(story).records.append(replace(ran(START + 6), message="7-7", at=None, kind="manual"))
    return replace(story, lines=[*story.lines, replace(story.lines[1], message="7-7", slot="!tick")])


def ran_for_nobody(story: Story) -> Story:
    return replace(story, lines=[*story.lines, replace(story.lines[0], message="7-7")])


def event_twice(story: Story) -> Story:
    story.account.events[RULE] *= 2
    return story


def event_never(story: Story) -> Story:
    story.account.events[RULE].clear()
    return story


def success_without_end(story: Story) -> Story:
    lines = [part for part in story.lines if not (part.what == "end" and part.message == message(START + 6))]
    return replace(story, lines=lines)


def later_attempt_began(story: Story) -> Story:
    return replace(story, lines=[*story.lines, line("begin", START + 6.25, START + 6, attempt=2)])


def attempt_from_nowhere(story: Story) -> Story:
    place = next(place for place, record in enumerate(ledger_of(story).records) if record.at == START + 20)
    ledger_of(story).records[place] = ran(START + 20, attempts=2)
    ends = [replace(part, attempt=2) if part.message == message(START + 20) else part for part in story.lines]
    return replace(story, lines=ends)


def failed(story: Story, at: int, attempts: int, **changes: Any) -> Story:
    """A firing that failed, with a dead letter and a begin for each attempt."""
    place = next(place for place, record in enumerate(ledger_of(story).records) if record.at == at)
    written = at + attempts + 0.3
    record = ran(at, verdict="failed", reason="exit 3", attempts=attempts, written=written)
    ledger_of(story).records[place] = record
    story.account.letters.append(Letter(message=message(at), app="app", slot="@tick", reason="exhausted"))
    begins = [line("begin", at + 0.1 + number, at, attempt=number + 1) for number in range(attempts)]
    changed = replace(without_lines(story, at), **changes)
    return replace(changed, lines=[*changed.lines, *begins])


def failed_without_cause(story: Story) -> Story:
    return failed(story, START + 15, 5)


def failed_too_early(story: Story) -> Story:
    return failed(story, START + 15, 3, faulty=frozenset({("app", "@tick")}))


def failed_too_late(story: Story) -> Story:
    return failed(story, START + 15, 6, faulty=frozenset({("app", "@tick")}))


def no_letter(story: Story) -> Story:
    changed = failed(story, START + 15, 5, faulty=frozenset({("app", "@tick")}))
    changed.account.letters.clear()
    return changed


def letter_of_a_success(story: Story) -> Story:
    story.account.letters.append(Letter(message=message(START + 6), app="", slot="", reason="not-a-firing"))
    return story


def began_twice(story: Story) -> Story:
    return replace(story, lines=[*story.lines, line("begin", START + 15.25, START + 15, worker=2)])


def began_after_its_end(story: Story) -> Story:
    return replace(story, lines=[*story.lines, line("begin", START + 18.0, START + 15, attempt=2, worker=2)])


def side_by_side(story: Story) -> Story:
    """Attempt 2 begins elsewhere while attempt 1 runs, and nothing had happened to its worker."""
    place = next(place for place, record in enumerate(ledger_of(story).records) if record.at == START + 8)
    ledger_of(story).records[place] = ran(START + 8, attempts=2, written=START + 18.6)
    lines = [
        line("begin", START + 8.1, START + 8),
        line("end", START + 17.0, START + 8),
        line("begin", START + 15.5, START + 8, attempt=2, worker=2),
        line("end", START + 18.5, START + 8, attempt=2, worker=2),
    ]
    changed = without_lines(story, START + 8)
    return replace(changed, lines=[*changed.lines, *lines])


def skipped(story: Story, at: int) -> Story:
    """A firing that ended without a run, and says that another one was in its way."""
    place = next(place for place, record in enumerate(ledger_of(story).records) if record.at == at)
    ledger_of(story).records[place] = ran(at, verdict="skipped", reason="another run had not ended", attempts=0)
    return without_lines(story, at)


def skipped_for_nothing(story: Story) -> Story:
    return replace(skipped(story, START + 15), overlaps={NAME: "skip"})


def skipped_and_ran(story: Story) -> Story:
    lines = [part for part in story.lines if part.message == message(START + 15)]
    changed = replace(skipped(slow_before(story, START + 15), START + 15), overlaps={NAME: "skip"})
    return replace(changed, lines=[*changed.lines, *lines])


def slow_before(story: Story, at: int) -> Story:
    """The firing before that one is still running when it comes."""
    place = next(place for place, record in enumerate(ledger_of(story).records) if record.at == at) - 1
    record = ledger_of(story).records[place]
    ledger_of(story).records[place] = replace(record, written=at + 1.0)
    lines = [
        replace(part, at=at + 0.9) if part.what == "end" and part.message == record.message else part
        for part in story.lines
    ]
    return replace(story, lines=lines)


def two_at_a_time(story: Story) -> Story:
    return replace(slow_before(story, START + 15), overlaps={NAME: "queue"})


CASES: list[tuple[Change, list[str]]] = [
    (lost, ["unaccounted"]),
    (below_the_floor, ["unaccounted"]),
    (closed_for_no_reason, ["closing"]),
    (closed_after_publication, ["unaccounted"]),
    (two_verdicts, ["two-verdicts"]),
    (overwritten, ["changed"]),
    (wrong_count, ["range-count"]),
    (between_firings, ["unexpected"]),
    (before_registering, ["unexpected"]),
    (in_a_pause, ["unexpected"]),
    (never_said, ["generation"]),
    (not_in_time, ["in-force"]),
    (overlapping_generations, ["generation"]),
    (one_entry_more, ["entries"]),
    (gone_without_end, ["acknowledged"]),
    (no_verdict, ["verdict"]),
    (ended_twice, ["verdict"]),
    (ended_by_nobody, ["stranger"]),
    (ran_for_nobody, ["stranger"]),
    (event_twice, ["event"]),
    (event_never, ["event"]),
    (success_without_end, ["success"]),
    (later_attempt_began, ["attempts"]),
    (attempt_from_nowhere, ["attempts"]),
    (failed_without_cause, ["budget"]),
    (failed_too_early, ["budget"]),
    (failed_too_late, ["budget"]),
    (no_letter, ["dead-letter"]),
    (letter_of_a_success, ["dead-letter"]),
    (began_twice, ["again"]),
    (began_after_its_end, ["again", "attempts"]),
    (side_by_side, ["overlap"]),
    (skipped_for_nothing, ["unrun"]),
    (skipped_and_ran, ["side-by-side", "unrun"]),
    (two_at_a_time, ["side-by-side"]),
]


@pytest.mark.parametrize(("change", "rules"), CASES, ids=[change.__name__ for change, _ in CASES])
def test_a_defect_is_found(change: Change, rules: list[str]) -> None:
    assert rules_of(change(clean())) == rules


def outage(story: Story, seconds: float) -> Story:
    """Nobody reached the broker for that long, and the firings of that time went by the policy."""
    cut = Trouble(kind="broker-down", worker=FLEET, start=START + 5.5, end=START + 5.5 + seconds)
    return replace(story, troubles=[cut], until=START + 200)


def long_outage() -> Story:
    """Ninety seconds: the first firing was tried and kept, the last was caught up, the others are missed."""
    story = outage(clean(), 90)
    ledger = ledger_of(story)
    ledger.generations = (Generation(gen=1, every=2, from_ms=START * 1000 + 500, to_ms=None),)
    firings = [START + 2, START + 4, START + 6, *range(START + 98, START + 201, 2)]
    # The firing after the cut comes out of the outbox, the others of the gap are one range.
    ledger.published = {at: message(at) for at in firings}
    closing = Ended(verdict="missed", reason="catch_up: latest", at=START + 96, first=START + 8, count=45)
    ledger.ranges = {(START + 8, START + 96): ("missed", "catch_up: latest")}
    ledger.records = [*(ran(at) for at in firings), closing]
    story.account.added = len(firings) + 1
    lines = [part for at in firings for part in (line("begin", at + 0.1, at), line("end", at + 0.2, at))]
    on_event = [part for part in story.lines if part.message == "5-5"]
    return replace(story, lines=[*lines, *on_event], edits=story.edits[:1])


def test_what_nobody_could_publish_for_longer_than_a_minute_may_be_missed() -> None:
    assert [str(finding) for finding in check(long_outage())] == []


def test_a_shorter_outage_explains_no_miss() -> None:
    story = long_outage()
    short = replace(story, troubles=[replace(story.troubles[0], end=START + 60.0)])
    assert rules_of(short) == ["closing"]


def test_what_was_tried_when_an_outage_began_must_come_out_of_the_outbox() -> None:
    story = long_outage()
    unpublished(story, START + 8 - 2)
    ledger = ledger_of(story)
    ledger.ranges = {(START + 6, START + 96): ("missed", "catch_up: latest")}
    ledger.generations = (replace(ledger.generations[0], from_ms=START * 1000 + 500),)
    ledger.records[-1] = replace(ledger.records[-1], first=START + 6, count=46)
    cut = replace(story.troubles[0], start=START + 4.5)
    found = check(replace(without_lines(story, START + 6), troubles=[cut]))
    assert {finding.rule for finding in found} == {"outbox"}
    assert "closed as ('missed', 'catch_up: latest')" in str(found[0])


def test_two_attempts_side_by_side_are_right_where_the_first_worker_stood_still() -> None:
    stopped = Trouble(kind="stopped", worker="w1", start=START + 8.2, end=START + 15.8)
    assert rules_of(replace(side_by_side(clean()), troubles=[stopped])) == []


def test_another_policy_explains_no_miss() -> None:
    assert rules_of(replace(long_outage(), policies={NAME: "none"})) == ["closing"]


def test_a_run_in_its_way_explains_a_firing_that_was_skipped() -> None:
    story = skipped(slow_before(clean(), START + 15), START + 15)
    assert rules_of(replace(story, overlaps={NAME: "skip"})) == []
    assert rules_of(story) == ["unrun"]


def test_a_pause_explains_what_it_covered() -> None:
    story = lost(in_a_pause(clean()))
    unpublished(story, START + 4)
    ledger_of(story).ranges[START + 4, START + 6] = ("paused", "a try")
    ledger_of(story).records.append(Ended(verdict="paused", reason="a try", at=START + 6, first=START + 4, count=2))
    assert [str(finding) for finding in check(without_lines(story, START + 4))] == []


def test_every_rule_has_a_case() -> None:
    covered = {rule for _, rules in CASES for rule in rules} | {"outbox"}
    assert covered == set(RULES)


def test_a_seed_decides_the_timetable() -> None:
    assert timetable(7, 90) == timetable(7, 90) != timetable(8, 90)
    deeds = timetable(7, 90)
    assert {deed.kind for deed in deeds} >= {"kill-worker", "kill-broker", "cut", "edit", "pause", "remove", "break"}
    assert all(deed.at_s + deed.lasts_s < 90 for deed in deeds)
    assert [deed.lasts_s for deed in timetable(7, 600) if deed.lasts_s >= LONG_OUTAGE_S] == [LONG_OUTAGE_S]


def test_a_finding_says_when_what_and_why() -> None:
    [finding] = check(below_the_floor(clean()))
    assert str(finding) == (
        "[unaccounted] app/tick at 08:00:06.000: neither published nor closed, below the floor 1800000006"
    )


def test_every_deliberate_break_finds_what_it_breaks() -> None:
    """In a process of its own, since it would break this one."""
    support = Path(__file__).parent.parent / "support"
    program = "from nemesis.breaks import BREAKS\nfor name, put in BREAKS.items(): put(); print(name)"
    done = subprocess.run([sys.executable, "-c", program], cwd=support, capture_output=True, text=True, timeout=30)
    assert (done.stderr, done.stdout.split()) == ("", list(PROVOCATIONS))
