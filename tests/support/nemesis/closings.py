"""Whether every expected firing was published or closed for a true reason, and nothing else was."""

from __future__ import annotations

from collections.abc import Iterator

from support.nemesis.calm import Calm, Stretch
from support.nemesis.definitions import at as in_force_at
from support.nemesis.story import Ledger, Name, Paused, Story

_BEFORE_S = 2.0
"""A peer of a worker that is cut off may act up to a second after the instant, so a little before the cut counts too."""
_BACK_S = 25.0
"""Registering, the outbox and the peers' outboxes come before catch-up, which takes the firings of that time too."""
_RANKS_S = 12.0
"""So long a worker that is gone still counts among those that act first."""
_TRIED_S = 4.0
"""A firing that is due so soon after the broker went is tried before the scheduler stops trying."""

Said = tuple[Name, float, str]


def expected(ledger: Ledger, until: float) -> Iterator[int]:
    """The firings of all generations up to that instant."""
    for item in ledger.generations:
        if item.every is None:
            continue
        last = until if item.to_ms is None else min(until, -(-item.to_ms // 1000) - 1)
        at = -(-item.from_ms // (1000 * item.every)) * item.every
        while at <= last:
            yield at
            at += item.every


def unaccounted(story: Story, _calm: Calm) -> Iterator[Said]:
    """Every expected firing is published or closed, and not both."""
    for name, ledger in story.account.ledgers.items():
        for at in expected(ledger, story.until):
            closing = ledger.closing_at(at)
            if at in ledger.published:
                if at in ledger.closed:
                    yield name, at, f"published as {ledger.published[at]} and closed as {ledger.closed[at]}"
            elif closing is None:
                below = ledger.floor is not None and at <= ledger.floor
                yield name, at, "neither published nor closed" + (f", below the floor {ledger.floor}" if below else "")


def unexpected(story: Story, _calm: Calm) -> Iterator[Said]:
    """Nothing is published or closed by itself that no definition in force expects, and nothing in a pause."""
    for name, ledger in story.account.ledgers.items():
        for at in sorted({*ledger.published, *ledger.closed}):
            item = in_force_at(ledger.generations, at)
            how = "published" if at in ledger.published else "closed"
            if item is None:
                yield name, at, f"{how}, and no definition was in force"
            elif item.every is None or at % item.every:
                yield name, at, f"{how}, and generation {item.gen} (every {item.every}) does not fire then"
        for pause in _pauses(story, name):
            for at in ledger.published:
                if -(-pause.told // 1) <= at <= pause.resume_asked // 1:
                    yield name, at, "published in a pause"


def unexplained(story: Story, calm: Calm) -> Iterator[Said]:
    """A closing says what is true."""
    blind = calm.blind()
    for name, ledger in story.account.ledgers.items():
        for at in expected(ledger, story.until):
            closing = None if at in ledger.published else ledger.closing_at(at)
            if closing is not None and not _is_true(story, calm, blind, name, at, closing):
                yield name, at, f"closed as {closing[0]} ({closing[1]}), which nothing explains"


def _is_true(story: Story, calm: Calm, blind: list[Stretch], name: Name, at: int, closing: tuple[str, str]) -> bool:
    verdict, reason = closing
    if verdict == "paused":
        return any(pause.asked - 1 <= at <= pause.resume_told for pause in _pauses(story, name))
    if verdict != "missed":
        return False
    if reason.startswith("still open"):
        return any(at <= pause.told + 1 and calm.settled_by(at) > pause.resume_asked for pause in _pauses(story, name))
    # A minute is lateness. Only what nobody could publish for longer goes by the policy.
    return reason == f"catch_up: {story.policies.get(name, 'latest')}" and any(
        last - first > story.lateness_s and first - _BEFORE_S <= at <= last + _BACK_S for first, last in blind
    )


def attempted(story: Story, calm: Calm) -> Iterator[Said]:
    """In a long outage, what was due when it began was tried and kept, and is published afterwards whatever the policy."""
    for first, last in calm.blind():
        if not story.lateness_s < last - first < story.until or last > story.until:
            continue
        before = first - (_RANKS_S if len(story.workers) > 1 else 1.0)
        if any(it.worker and it.overlaps(before, last + _BACK_S) for it in story.troubles):
            # The rows may lie with a worker that is dead, or nobody may have come to try.
            continue
        for name, ledger in story.account.ledgers.items():
            following = next((at for at in expected(ledger, story.until) if at > first), None)
            if following is None or following > first + _TRIED_S or _near_pause(story, name, following):
                continue
            if following not in ledger.published:
                yield name, following, f"tried when the outage began, and closed as {ledger.closing_at(following)}"


def counts(story: Story, _calm: Calm) -> Iterator[Said]:
    """The record of a closed range counts the firings that it closed, and those alone."""
    for name, ledger in story.account.ledgers.items():
        firings = sorted(expected(ledger, float(story.until) + 3600))
        for record in ledger.records:
            if record.message or record.at is None or record.first is None:
                continue
            inside = [at for at in firings if record.first <= at <= record.at]
            own = sum(1 for at in inside if at in ledger.published or at in ledger.closed)
            if len(inside) - own != record.count:
                yield (
                    name,
                    record.at,
                    (
                        f"a range of {record.count} {record.verdict} from {record.first} is on record; "
                        f"it has {len(inside)} firings, {own} of them with a state of their own"
                    ),
                )


def _pauses(story: Story, name: Name) -> list[Paused]:
    return [pause for pause in story.pauses if pause.name == name]


def _near_pause(story: Story, name: Name, at: int) -> bool:
    return any(pause.asked - 1 <= at <= pause.resume_told + 1 for pause in _pauses(story, name))
