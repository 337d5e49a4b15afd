"""The judge of a run: knows what the templates said and when, the account, and the handlers' own log; nothing else.

It computes the firings of `every` itself and shares no code with the product. What it tolerates, and why:
a definition may come into force any time between its save and the end of the first quiet stretch after it; an attempt
may be lost without a trace, or meet its successor, only where its worker was killed, stopped or cut off long enough;
firings may be missed only where nobody could reach the broker for longer than a minute. The broker is killed as a
process, not with its machine, so whatever it acknowledged must still be there: no firing and no end may be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from support.nemesis import closings, definitions, overlaps, runs
from support.nemesis.calm import Calm
from support.nemesis.story import Name, Story


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that must not be: a short name of the rule, what it is about, when, and what was read."""

    rule: str
    about: str
    at: float | None
    said: str

    def __str__(self) -> str:
        when = "" if self.at is None else f" at {moment(self.at)}"
        return f"[{self.rule}] {self.about}{when}: {self.said}"


def moment(at: float) -> str:
    """An instant for people."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S.%f")[:-3]


def check(story: Story) -> list[Finding]:
    """Every rule's findings."""
    calm = Calm(story)
    found: list[Finding] = []
    for rule, judge in RULES.items():
        for about, at, said in judge(story, calm):
            text = about if isinstance(about, str) else "/".join(about)
            found.append(Finding(rule=rule, about=text, at=at, said=said))
    return found


Said = tuple[str | Name, float | None, str]
Rule = Callable[[Story, Calm], Iterator[Said]]


def _entries(story: Story, _calm: Calm) -> Iterator[Said]:
    """Each publication, event and manual run is one entry, and there are no others."""
    account = story.account
    known = {message for ledger in account.ledgers.values() for message in ledger.published.values()}
    wanted = len(known) + len(story.emitted) + len(story.triggered)
    if not wanted <= account.added <= wanted + story.maybe:
        yield (
            "the stream",
            None,
            (
                f"took {account.added} entries; the account knows {len(known)} publications, {len(story.emitted)} events, "
                f"{len(story.triggered)} manual runs and {story.maybe} that may have arrived"
            ),
        )


def _odd(story: Story, _calm: Calm) -> Iterator[Said]:
    """What one look saw must not be gone or different in a later one."""
    for name, ledger in story.account.ledgers.items():
        for at, said in ledger.odd.items():
            yield name, at, said


def _unended(story: Story, _calm: Calm) -> Iterator[Said]:
    """Nothing is acknowledged without its end on record."""
    for message, at in story.account.unended.items():
        yield f"message {message}", at, "its entry is gone, and no record says how it ended"


RULES: dict[str, Rule] = {
    "generation": definitions.generations,
    "in-force": definitions.in_force,
    "unaccounted": closings.unaccounted,
    "unexpected": closings.unexpected,
    "closing": closings.unexplained,
    "outbox": closings.attempted,
    "range-count": closings.counts,
    "changed": _odd,
    "entries": _entries,
    "acknowledged": _unended,
    "verdict": runs.verdicts,
    "two-verdicts": runs.doubled,
    "stranger": runs.strangers,
    "event": runs.events,
    "dead-letter": runs.letters,
    "success": runs.successes,
    "attempts": runs.attempts,
    "budget": runs.budgets,
    "again": runs.repeated,
    "overlap": runs.overlapping,
    "unrun": overlaps.unrun,
    "side-by-side": overlaps.side_by_side,
}
