"""Whether firings of a schedule that does not allow overlap kept out of each other's way, and ended unrun only then."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from support.nemesis.calm import Calm
from support.nemesis.runs import sent, was_away
from support.nemesis.story import Ended, Ledger, Name, Story

_FITTING = {"skipped": "skip", "coalesced": "queue"}
_CLOCK_S = 0.05


def unrun(story: Story, _calm: Calm) -> Iterator[tuple[Name, float | None, str]]:
    """A firing that ended without a run was in another one's way, or its schedule had been removed."""
    for name, ledger in story.account.ledgers.items():
        for record in ledger.records:
            if not record.message or record.verdict in {"succeeded", "failed"}:
                continue
            if record.verdict == "obsolete":
                is_true = any(
                    item.every is None and item.from_ms / 1000 <= record.written for item in ledger.generations
                )
            else:
                is_true = _FITTING.get(record.verdict) == story.overlaps.get(name, "allow") and _is_in_the_way(
                    ledger, record
                )
            if not is_true:
                yield name, record.at, f"ended as {record.verdict} ({record.reason}), which nothing explains"
        yield from _run_after_all(story, name, ledger)


def _is_in_the_way(ledger: Ledger, record: Ended) -> bool:
    """Whether another firing, or a run by hand, had been sent and had not ended then."""
    ended = {other.message: other.written for other in ledger.records if other.message}
    others = {*ledger.published.values(), *ended} - {record.message}
    return any(
        sent(other) <= record.written + _CLOCK_S and ended.get(other, record.written) >= record.written - _CLOCK_S
        for other in others
    )


def _run_after_all(story: Story, name: Name, ledger: Ledger) -> Iterator[tuple[Name, float | None, str]]:
    unrun_ = {it.message: it for it in ledger.records if it.message and it.verdict not in {"succeeded", "failed"}}
    for line in story.lines:
        if line.what == "begin" and line.message in unrun_ and line.slot[1:] == name[1] and line.app == name[0]:
            yield name, line.at, f"message {line.message} ended as {unrun_[line.message].verdict}, and it ran"


def side_by_side(story: Story, calm: Calm) -> Iterator[tuple[Name, float | None, str]]:
    """No two firings of such a schedule run at the same time, unless a worker was kept away from its lost run."""
    for name, overlap in story.overlaps.items():
        if overlap == "allow":
            continue
        mine = [line for line in story.lines if (line.app, line.slot[1:]) == name]
        ends = {(line.message, line.attempt, line.worker): line.at for line in mine if line.what == "end"}
        begins = sorted((line for line in mine if line.what == "begin"), key=lambda line: line.at)
        for before, after in pairwise(begins):
            end = ends.get((before.message, before.attempt, before.worker))
            if before.message == after.message or end is None or end <= after.at + _CLOCK_S:
                continue
            if not was_away(story, calm, before, after.at):
                yield (
                    name,
                    after.at,
                    f"{after.message} began while {before.message} ran for {end - after.at:.1f} s more",
                )
