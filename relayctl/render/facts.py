"""Facts as log lines: words for people, one JSON object per line for programs. It writes nowhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from relayctl.core import facts
from relayctl.core.counting import counted
from relayctl.render.escapes import harmless_line
from relayctl.render.instants import clock_text, span_text

# Made once: `json.dumps` makes another one for each line.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

# One line per event: `{name}` is a field, durations and instants already in words.
WORDING: Mapping[str, str] = {
    "worker-started": "worker {worker} started, pid {pid}, relayctl {version}: {apps}, {schedules}; "
    "broker {broker}, namespace {namespace}",
    "next-firing": "next {app}/{schedule}   {at}   {trigger}   → {handler}",
    "limits-unenforced": "limits not enforced here: {limits} ({reason})",
    "draining": "draining after {reason}: {running} running, at most {limit}{hurry}",
    "stopped": "stopped after {after}: {finished} finished, {interrupted} interrupted and handed back",
    "broker-started": "broker started: {flavour} {version}, pid {pid}",
    "broker-lost": "broker lost: {reason}; running work goes on, retrying",
    "broker-back": "broker back after {after}",
    "intake-remade": "the stream or its consumer group was gone and is made again; unfinished work goes on",
    "broker-warning": "broker: {reason}",
    "clock-stepped": "clock stepped by {by}; cursors stay where they were",
    "loop-failed": "{loop} failed and will try again: {reason}",
    "app-loaded": "reconcile {app}: {summary}, revision {revision}",
    "app-broken": "reconcile {app}: {place} {code} {problem}{more}; {keeping}{unaffected}; "
    "relayctl validate shows the way out",
    "build-refused": "reconcile {app}: the code of {revision} does not load ({reason}); the build before it serves",
    "environment-building": "{app}: installing what {file} names; {goes_on}",
    "environment-built": "{app}: {file} is installed, in {took}",
    "environment-failed": "{app}: building {file} failed: {reason}; {goes_on}{again}; "
    "relayctl status shows its last lines",
    "environment-removed": "environment {environment}, of a {file}, was used by nobody and is removed",
    "bound-elsewhere": "{app}: this worker has revision {revision}, and release {release} binds the fleet to {pinned}: "
    "it publishes and admits nothing of {app}, which waits for a worker that has it",
    "imports-unshared": "{app}: every fresh run imports its handlers anew, since {reason}",
    "app-removed": "reconcile {app}: removed with {schedules}",
    "source-lost": "source {source} lost: {reason}; {goes_on}",
    "last-good-unusable": "the last good version of {whose}: {reason}",
    "events-handed-over": "{events} handed over to peers, since {unread} here",
    "release-awaited": "source {source}: waiting for a first release, which relayctl apply publishes",
    "source-back": "source {source} is back",
    "revision-taken": "source {source}: {revision} is in force{instead}, {apps}",
    "revision-held": "source {source}: {revision} does not validate and is held: {problem}{more}; {goes_on}",
    "hook-refused": "a demand at /hooks/git was refused: {reason}",
    "removal-held": "removal of {removed} of {total} held; "
    "if intended: relayctl reconcile --accept-removals {revision}",
    "schedule-unreadable": "{app}/{schedule}: its record in the broker cannot be used, and it rests: {reason}",
    "schedule-behind": "{app}/{schedule}: behind the fleet, running its definition: {reason}",
    "schedule-moved": "{app}/{schedule}: goes on for {moved_from}, with its past, its pause and all that it owes",
    "published": "{app}/{schedule}@{scheduled_at} published as {entry}{how}",
    "published-late": "{app}/{schedule}@{scheduled_at} published {late} late{caught_up}",
    "passed-over": "{app}/{schedule}: {first_at} to {last_at} passed over, {count} closed as missed: {reason}",
    "overdue": "{app}/{schedule}: {first_at} to {last_at} overdue, {count} neither published nor closed; "
    "relayctl why {app}/{schedule}@{first_at}",
    "missed": "{app}/{schedule}: {first_at} to {last_at}, {count} closed as missed: {reason}",
    "duplicate": "{app}/{schedule}@{scheduled_at} was published by a peer as {entry}",
    "publish-failed": "{app}/{schedule}@{scheduled_at} not published, attempt {attempt}: {reason}",
    "scheduler-changed": "scheduler {state}: {reason}",
    "outbox-damaged": "the outbox cannot be read ({reason}) and was set aside as {file}; "
    "what it held is not tried again",
    "outbox-row-bad": "outbox row {row} is kept and not published: {reason}; see relayctl outbox ls",
    "outbox-given-up": "{app}/{schedule}@{scheduled_at} closed as missed: too many younger ones wait in the outbox",
    "replicas-behind": "fewer than {wanted} replicas hold what was published; it stays in the outbox until they do",
    "state-restored": "the broker is new or was flushed: told it how {offered} schedules stand, it knew nothing of "
    "{restored}",
    "state-lost": "the broker is new or was flushed, and nobody remembers {schedules}: what was owed before is missed",
    "event-unmatched": "event {message} matched no rule",
    "message-rejected": "message {message} rejected: {reason}",
    "run-started": "{app}/{handler}@{message} started, attempt {attempt}",
    "run-ended": "{app}/{handler}@{message} ok in {took}, attempt {attempt}",
    "run-failed": "{app}/{handler}@{message} failed in {took}, attempt {attempt} of {attempts}: "
    "{reason}; {then}; {look}",
    "run-interrupted": "{app}/{handler}@{message} interrupted, attempt {attempt} not charged",
    "run-readmitted": "{app}/{handler}@{message} goes on, attempt {attempt}; the broker had lost its record",
    "lease-lost": "{app}/{handler}@{message} taken over by a peer, attempt {attempt} ended here",
    "run-abandoned": "{app}/{handler}@{message} failed: {reason}; no live worker could run it since {since_at}; "
    "relayctl dlq ls --app {app}",
    "end-refused": "{app}/{handler}@{message}, attempt {attempt}: its end ({outcome}) cannot be recorded: {reason}; "
    "its place is free, and the attempt counts as lost when its lease ends",
    "newer-left": "{kind} {name}{others} written by a newer relayctl, left for a worker that knows it",
    "invoke-ended": "{app}/{handler}@{message} {outcome} in {took}{because}",
    "output": "[{label}] {line}",
    "service-started": "{app}/{service}.{replica} started, pid {pid}{on_port}",
    "service-up": "{app}/{service}.{replica} is up after {after}",
    "service-ended": "{app}/{service}.{replica} ended after {lived}: {reason}; {again}",
    "service-not-started": "{app}/{service}.{replica} cannot be started: {reason}; tried again, first in {retry_in}",
    "service-stopped": "{app}/{service}.{replica} stopped: {reason}{killed}",
    "service-crash-loop": "{app}/{service}.{replica} has failed {failures} times in a row: {reason}; "
    "it is tried again with pauses of up to 30 s, relayctl status shows how it stands",
    "service-recovered": "{app}/{service}.{replica} stays up again",
    "service-replaced": "{app}/{service} replaced in {took}: {replicas} of the new definition",
    "service-held": "{app}/{service}: the new definition does not come up: {reason}; "
    "{old} of the one before go on until it does",
    "control-used": "{action} {target}{who}{because}",
}


def text(fact: facts.Fact, at: datetime) -> str:
    """One line for people: time, then what happened."""
    words = {name: _word(value) for name, value in _values(fact).items()}
    words |= _EXTRA[type(fact)](fact) if type(fact) in _EXTRA else {}
    # A fact without words of its own is still told: a listener must not fail its worker.
    form = WORDING.get(fact.event) or " ".join([fact.event, *(f"{name}={{{name}}}" for name in words)])
    line = form.format_map(words)
    mark = "" if fact.level in {facts.Level.INFO, facts.Level.DEBUG} else f"{fact.level.value}: "
    return f"{clock_text(at)} {mark}{harmless_line(line)}"


def as_json(fact: facts.Fact, at: datetime) -> str:
    """One JSON object on one line: time, level, event, then the fields."""
    head = {
        "time": f"{at.isoformat(timespec='milliseconds')[:23]}Z",
        "level": fact.level.value,
        "event": fact.event,
    }
    return _encode(head | fact.to_fields())


def _values(fact: facts.Fact) -> dict[str, Any]:
    return {name: getattr(fact, name) for name in fact.__dataclass_fields__}


def _word(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%SZ}"
    if isinstance(value, timedelta):
        return span_text(value)
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _started(fact: facts.WorkerStarted) -> dict[str, str]:
    return {"apps": counted(fact.apps, "app"), "schedules": counted(fact.schedules, "schedule")}


def _draining(fact: facts.Draining) -> dict[str, str]:
    is_asked = fact.reason.startswith("SIG") and fact.reason != "SIGQUIT"
    return {"hurry": "; a second one does not wait" if is_asked and fact.running else ""}


def _removed(fact: facts.AppRemoved) -> dict[str, str]:
    return {"schedules": counted(fact.schedules, "schedule")}


def _held(fact: facts.RemovalHeld) -> dict[str, str]:
    return {"total": counted(fact.total, "schedule")}


def _loaded(fact: facts.AppLoaded) -> dict[str, str]:
    counts = [(fact.added, "added"), (fact.changed, "swapped"), (fact.removed, "removed")]
    parts = [f"{count} {word}" for count, word in counts if count] or ["no schedule changed"]
    first, _, rest = parts[0].partition(" ")
    if first.isdigit():
        parts[0] = f"{first} {'schedule' if first == '1' else 'schedules'} {rest}"
    return {"summary": f"{'ok again' if fact.was_broken else 'ok'}, {', '.join(parts)}"}


def _broken(fact: facts.AppBroken) -> dict[str, str]:
    keeping = f"keeping the last good {fact.app}" if fact.has_last_good else f"{fact.app} does not run"
    unaffected = f", {counted(fact.others, 'app')} unaffected" if fact.others else ""
    more = f" (and {fact.problems - 1} more)" if fact.problems > 1 else ""
    return {"keeping": keeping, "unaffected": unaffected, "more": more}


def _environment(fact: facts.EnvironmentBuilding | facts.EnvironmentFailed) -> dict[str, str]:
    again = ""
    if isinstance(fact, facts.EnvironmentFailed) and fact.retry_in is not None:
        again = f", tried again in {span_text(fact.retry_in)}"
    goes_on = f"its build of {fact.serves} goes on" if fact.serves else "it does not run yet"
    return {"goes_on": goes_on, "again": again}


def _published(fact: facts.Published) -> dict[str, str]:
    parts = [*fact.marks, *([f"{span_text(fact.late)} late"] if fact.late >= timedelta(seconds=1) else [])]
    return {"how": f" ({', '.join(parts)})" if parts else ""}


def _late(fact: facts.PublishedLate) -> dict[str, str]:
    return {"caught_up": ", by catch-up" if fact.is_catch_up else ""}


def _failed(fact: facts.RunFailed) -> dict[str, str]:
    last = "no attempt is left, kept as a dead letter"
    return {"then": last if fact.retry_in is None else f"again in {span_text(fact.retry_in)}"}


def _newer(fact: facts.NewerLeft) -> dict[str, str]:
    return {"others": "" if fact.count == 1 else f" and {fact.count - 1:,} more"}


def _control(fact: facts.ControlUsed) -> dict[str, str]:
    return {"who": f" by {fact.by}" if fact.by else "", "because": f": {fact.reason}" if fact.reason else ""}


def _invoked(fact: facts.InvokeEnded) -> dict[str, str]:
    return {"because": f": {fact.reason}" if fact.reason else ""}


def _service_started(fact: facts.ServiceStarted) -> dict[str, str]:
    return {"on_port": "" if fact.port is None else f", port {fact.port}"}


def _service_ended(fact: facts.ServiceEnded) -> dict[str, str]:
    return {"again": f"again in {span_text(fact.restart_in)}" if fact.restart_in else "again at once"}


def _service_stopped(fact: facts.ServiceStopped) -> dict[str, str]:
    return {"killed": ", and had to be killed" if fact.is_killed else ""}


def _service_replaced(fact: facts.ServiceReplaced) -> dict[str, str]:
    return {"replicas": counted(fact.replicas, "replica")}


def _service_held(fact: facts.ServiceHeld) -> dict[str, str]:
    return {"old": counted(fact.old, "replica")}


def _source_lost(fact: facts.SourceLost) -> dict[str, str]:
    if fact.running and fact.is_last_good:
        return {"goes_on": f"{counted(fact.running, 'app')} kept from before, as last seen"}
    if fact.running:
        return {"goes_on": "everything keeps running as it was"}
    if not fact.source.startswith("directory "):
        return {"goes_on": "nothing runs until it can be had"}
    return {"goes_on": "nothing runs until it is there (relayctl init makes a first app, --apps names another)"}


def _revision_taken(fact: facts.RevisionTaken) -> dict[str, str]:
    return {"instead": f" instead of {fact.was}" if fact.was else "", "apps": counted(fact.apps, "app")}


def _revision_held(fact: facts.RevisionHeld) -> dict[str, str]:
    goes_on = f"{fact.in_force} stays in force" if fact.in_force else "nothing runs of it"
    more = f" (and {fact.problems - 1} more)" if fact.problems > 1 else ""
    return {"more": more, "goes_on": goes_on}


def _last_good(fact: facts.LastGoodUnusable) -> dict[str, str]:
    return {"whose": fact.app or "the apps"}


def _handed_over(fact: facts.EventsHandedOver) -> dict[str, str]:
    unread = f"{', '.join(fact.unread)} cannot be read" if fact.unread else "apps of theirs cannot be read"
    return {"events": counted(fact.count, "event"), "unread": unread}


_EXTRA: Mapping[type[facts.Fact], Callable[[Any], dict[str, str]]] = {
    facts.WorkerStarted: _started,
    facts.ServiceStarted: _service_started,
    facts.ServiceEnded: _service_ended,
    facts.ServiceStopped: _service_stopped,
    facts.ServiceReplaced: _service_replaced,
    facts.ServiceHeld: _service_held,
    facts.Draining: _draining,
    facts.AppRemoved: _removed,
    facts.RemovalHeld: _held,
    facts.AppLoaded: _loaded,
    facts.AppBroken: _broken,
    facts.EnvironmentBuilding: _environment,
    facts.EnvironmentFailed: _environment,
    facts.SourceLost: _source_lost,
    facts.LastGoodUnusable: _last_good,
    facts.RevisionTaken: _revision_taken,
    facts.RevisionHeld: _revision_held,
    facts.EventsHandedOver: _handed_over,
    facts.Published: _published,
    facts.PublishedLate: _late,
    facts.RunFailed: _failed,
    facts.NewerLeft: _newer,
    facts.ControlUsed: _control,
    facts.InvokeEnded: _invoked,
}
