"""Whether everything published ran to one recorded end, and the handlers' own log agrees with what is recorded."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from support.nemesis.calm import Calm
from support.nemesis.story import Line, Story

Slot = tuple[str, str, str]
"""Message, app, slot."""
Said = tuple[str, float | None, str]

_KEPT_AWAY_S = 4.0
"""A lease lasts 7 s and is renewed every 2 s: away for 5 s it may have ended, and loops on a busy machine lag."""
_BEFORE_S = 3.0
_CLOCK_S = 1.0
"""A handler's line and the record of its end are written by different processes."""


def verdicts(story: Story, _calm: Calm) -> Iterator[Said]:
    """Every published firing up to the end of the run, and every manual run, has one record."""
    found = Counter(record.message for ledger in story.account.ledgers.values() for record in ledger.records)
    for message, (about, at) in _owed(story).items():
        if not found[message]:
            where = "is still in the stream" if message in story.account.left else "is gone"
            yield about, at, f"published as {message}, and has no verdict; its entry {where}"
        elif found[message] > 1:
            yield about, at, f"published as {message}, and has {found[message]} verdicts"


def _owed(story: Story) -> dict[str, tuple[str, float | None]]:
    owed: dict[str, tuple[str, float | None]] = {}
    for (app, schedule), ledger in story.account.ledgers.items():
        for at, message in ledger.published.items():
            if at <= story.until:
                owed[message] = f"{app}/{schedule}", at
    for (app, schedule), message in story.triggered:
        owed[message] = f"{app}/{schedule} by hand", None
    return owed


def doubled(story: Story, _calm: Calm) -> Iterator[Said]:
    """An instant has one verdict, whether a run or a closing gave it."""
    for (app, schedule), ledger in story.account.ledgers.items():
        given: dict[int, list[str]] = defaultdict(list)
        for record in ledger.records:
            if record.kind == "schedule" and record.at is not None and record.first is None:
                given[record.at].append(f"{record.verdict} ({record.message or record.reason})")
        for at, verdicts_ in given.items():
            # Two of one message are told elsewhere.
            if len(set(verdicts_)) > 1:
                yield f"{app}/{schedule}", at, "has " + " and ".join(sorted(set(verdicts_)))


def strangers(story: Story, _calm: Calm) -> Iterator[Said]:
    """What ended, and what ran, had been published, sent or asked for."""
    account = story.account
    known = {message for ledger in account.ledgers.values() for message in ledger.published.values()}
    known |= {message for _, message in story.triggered}
    for (app, schedule), ledger in account.ledgers.items():
        for record in ledger.records:
            if record.message and record.message not in known:
                yield f"{app}/{schedule}", record.at, f"message {record.message} ended and was never published"
    known |= {event.message for event in story.emitted}
    unknown = {line.message for line in story.lines} - known
    if len(unknown) > story.maybe:
        yield "the log", None, f"{len(unknown)} messages ran that nobody sent, {min(unknown)} for one"


def events(story: Story, _calm: Calm) -> Iterator[Said]:
    """Every event ends once for each rule that it matches, and for no other."""
    for event in story.emitted:
        for rule in event.rules:
            ends = [item for item in story.account.events.get(rule, []) if item.message == event.message]
            if len(ends) != 1:
                yield f"event {event.message}", None, f"ended {len(ends)} times for {'/'.join(rule)}"
    rules_of = {event.message: set(event.rules) for event in story.emitted}
    for rule, records in story.account.events.items():
        for record in records:
            if record.message in rules_of and rule not in rules_of[record.message]:
                yield f"event {record.message}", None, f"ended for {'/'.join(rule)}, which does not match it"


def letters(story: Story, _calm: Calm) -> Iterator[Said]:
    """Every exhausted invocation has one dead letter, and there are no others."""
    found = Counter((letter.message, letter.app, letter.slot) for letter in story.account.letters)
    failed = {(record.message, app, slot) for app, slot, record in story.account.runs() if record.verdict == "failed"}
    for slot in failed:
        if found[slot] != 1:
            yield _name(slot), None, f"failed, and has {found[slot]} dead letters"
    for letter in story.account.letters:
        if (letter.message, letter.app, letter.slot) not in failed:
            yield f"message {letter.message}", None, f"is a dead letter ({letter.reason}), and did not fail"


def successes(story: Story, _calm: Calm) -> Iterator[Said]:
    """What is recorded as succeeded ran to its end, in that attempt."""
    ran = {(*_slot(line), line.attempt) for line in story.lines if line.what == "end"}
    for app, slot, record in story.account.runs():
        if record.verdict == "succeeded" and (record.message, app, slot, record.attempts) not in ran:
            about = _name((record.message, app, slot))
            yield about, record.at, f"succeeded in attempt {record.attempts}, which the log has no end of"


def attempts(story: Story, calm: Calm) -> Iterator[Said]:
    """The recorded number of attempts is that of the log, but for those that were lost before they began."""
    begun = _begun(story)
    for app, slot, record in story.account.runs():
        if record.verdict not in {"succeeded", "failed"}:
            continue
        key = (record.message, app, slot)
        numbers = set(begun.get(key, {}))
        if numbers and max(numbers) > record.attempts:
            yield _name(key), record.at, f"{record.attempts} attempts are on record, and attempt {max(numbers)} began"
        lost = set(range(1, record.attempts + 1)) - numbers
        if lost and not calm.is_troubled(sent(record.message) - _BEFORE_S, record.written):
            yield _name(key), record.at, f"attempts {sorted(lost)} never began, and nothing had happened"


def budgets(story: Story, calm: Calm) -> Iterator[Said]:
    """No more attempts than the template grants, no fewer before giving up, and no failure without a cause."""
    for key, numbers in _begun(story).items():
        allowed = story.attempts.get(_budget_of(key), 1)
        if max(numbers) > allowed:
            yield _name(key), None, f"attempt {max(numbers)} of {allowed} began"
    for app, slot, record in story.account.runs():
        if record.verdict != "failed":
            continue
        key = (record.message, app, slot)
        allowed = story.attempts.get(_budget_of(key), 1)
        if record.attempts != allowed:
            yield _name(key), record.at, f"given up after {record.attempts} of {allowed} attempts ({record.reason})"
        elif _budget_of(key) not in story.faulty:
            had = calm.troubles(sent(record.message) - _BEFORE_S, record.written)
            if had < allowed:
                yield _name(key), record.at, f"failed {allowed} times ({record.reason}), and only {had} things happened"


def repeated(story: Story, calm: Calm) -> Iterator[Said]:
    """An attempt begins once, unless a drain gave it back; nothing begins after its end is on record."""
    written = {(record.message, app, slot): record.written for app, slot, record in story.account.runs()}
    for key, numbers in _begun(story).items():
        for number, lines in numbers.items():
            ats = [line.at for line in lines]
            drained = any(it.kind == "drain" and it.overlaps(ats[0], ats[-1]) for it in story.troubles)
            if len(lines) > 1 and not drained:
                yield _name(key), ats[-1], f"attempt {number} began {len(lines)} times"
            for line in lines:
                end = written.get(key)
                if end is None or line.at <= end + _CLOCK_S or was_away(story, calm, line, line.at):
                    continue
                yield _name(key), line.at, f"attempt {number} began {line.at - end:.1f} s after its end was recorded"


def overlapping(story: Story, calm: Calm) -> Iterator[Said]:
    """Two attempts of one invocation run at the same time only where the first one's worker was kept away."""
    ended = {(*_slot(line), line.attempt): line.at for line in story.lines if line.what == "end"}
    for key, numbers in _begun(story).items():
        ordered = sorted((line for lines in numbers.values() for line in lines), key=lambda line: line.at)
        for before, after in pairwise(ordered):
            end = ended.get((*key, before.attempt))
            if end is None or end <= after.at or was_away(story, calm, before, after.at):
                continue
            yield (
                _name(key),
                after.at,
                f"attempt {after.attempt} began while attempt {before.attempt} ran for {end - after.at:.1f} s more",
            )


def was_away(story: Story, calm: Calm, line: Line, until: float) -> bool:
    """Whether the worker of an attempt was kept from its broker for as long as a lease may stand without it."""
    worker = story.pids.get(line.worker)
    if worker is None:
        return False
    first = min(line.at, until) - story.lease_s - _BEFORE_S
    return calm.away_s(worker, first, until) >= min(_KEPT_AWAY_S, story.lease_s)


def _begun(story: Story) -> dict[Slot, dict[int, list[Line]]]:
    found: dict[Slot, dict[int, list[Line]]] = defaultdict(lambda: defaultdict(list))
    for line in sorted(story.lines, key=lambda line: line.at):
        if line.what == "begin":
            found[_slot(line)][line.attempt].append(line)
    return found


def _slot(line: Line) -> Slot:
    return line.message, line.app, line.slot


def _budget_of(key: Slot) -> tuple[str, str]:
    return key[1], key[2].replace("!", "@", 1)


def sent(message: str) -> float:
    """When an entry was added: its id says so."""
    return int(message.partition("-")[0]) / 1000


def _name(key: Slot) -> str:
    return f"{key[1]}/{key[2]} {key[0]}"
