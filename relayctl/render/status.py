"""The state of the fleet for people and for programs: workers, sync, health, and what a check of the broker says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from textwrap import wrap
from typing import Any

from relayctl.core.counting import counted
from relayctl.core.occurrence import instant_from_text, instant_text, second_text
from relayctl.core.plan import Change
from relayctl.core.release import Release
from relayctl.core.running import BrokenApp
from relayctl.core.servicestanding import ServiceStanding
from relayctl.core.standing import Health, Standing, Sync
from relayctl.core.unbuilt import UnbuiltApp
from relayctl.render.deviations import deviation_documents, deviation_lines
from relayctl.render.instants import local_short, span_short, utc_text
from relayctl.render.releasewords import brief
from relayctl.render.table import columns

STATUS_VERSION = 1
_MOST_LISTED = 40
_WIDE = 100
_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLine:
    """One live worker in words and numbers."""

    id: str
    version: str
    apps: int
    beat_age: timedelta
    up: timedelta
    drift: int
    broken: tuple[BrokenApp, ...]
    tzdata: str
    evaluator: str
    source: str
    revision: str
    revision_since: str
    notes: tuple[str, ...]
    is_publishing: bool
    services: tuple[ServiceStanding, ...] = ()
    unbuilt: tuple[UnbuiltApp, ...] = ()
    unresolved: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Apps whose runs lack secrets there, with the reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Everything `status` can show. `checks` are the findings on broker, clock and versions."""

    now: datetime
    broker: str
    namespace: str
    mode: str
    backlog: int
    workers: tuple[WorkerLine, ...]
    schedules: tuple[Standing, ...]
    checks: tuple[str, ...] = field(default=())
    newer: tuple[str, ...] = ()
    """What a newer relayctl wrote and cannot be judged here."""
    limits: str = ""
    """Which declared limits are kept by nothing where they run."""
    release: Release | None = None
    on_release: int = 0
    """The release in force, and how many live workers have taken it."""

    deviations: tuple[Change, ...] = ()
    """What single workers run otherwise than their peers: schedules, event rules, services and settings."""

    @property
    def has_drift(self) -> bool:
        """Whether anything runs otherwise than it should."""
        return (
            bool(self.deviations)
            or any(line.sync is not Sync.SYNCED for line in self.schedules)
            or any(
                line.broken or line.unbuilt or any(service.old for service in line.services) for line in self.workers
            )
        )


def running_words(
    workers: int | None, mode: str | None, namespace: str, release: Release | None = None, on_release: int = 0
) -> str:
    """What runs, for the head of a plan; `on_release` workers have taken the release."""
    if workers is None:
        return "nothing: no broker is running here"
    which = "" if release is None else brief(release)
    if workers == 0:
        return f"{namespace}{which and ', '}{which}: no live worker; as the registry last had it"
    if which:
        return f"{namespace}, {which} · {on_release} of {counted(workers, 'worker')} on it"
    return f"{namespace}, {mode or 'no'} mode · {counted(workers, 'worker')}"


def _fleet_words(status: Status) -> str:
    return running_words(len(status.workers), status.mode, status.namespace, status.release, status.on_release)


def text(status: Status, *, width: int, with_workers: bool, with_counts: bool, with_checks: bool) -> str:
    """The overview, then what was asked for besides."""
    lines = [
        f"Broker    {status.broker}",
        f"Fleet     {_fleet_words(status)}",
        f"Backlog   {counted(status.backlog, 'unfinished message')}",
        f"Sync      {_tally(line.sync.value for line in status.schedules)}",
        f"Health    {_tally(line.health.value for line in status.schedules)}",
        *_replicas(status.workers),
        *(f"Newer     {words}" for words in status.newer),
        *([f"Limits    {status.limits}"] if status.limits else []),
    ]
    parts = ["\n".join(lines) + "\n"]
    if with_counts:
        return parts[0]
    odd = [
        line
        for line in status.schedules
        if line.sync is not Sync.SYNCED or line.health is not Health.HEALTHY or line.waiting
    ]
    if odd:
        more = f"… {len(odd) - _MOST_LISTED:,} more; --format json lists all\n" if len(odd) > _MOST_LISTED else ""
        parts.append(_schedules(odd[:_MOST_LISTED], status, width) + more)
    if any(not service.is_well for worker in status.workers for service in worker.services):
        parts.append(_services(status.workers, width))
    parts += [deviation_lines(status.deviations, width)] if status.deviations else []
    parts += [_held(status, width)] if any(worker.broken for worker in status.workers) else []
    parts += [_secrets(status, width)] if any(worker.unresolved for worker in status.workers) else []
    parts += [_notes(status, width)] if any(worker.notes for worker in status.workers) else []
    parts += [_unbuilt(status, width)] if any(worker.unbuilt for worker in status.workers) else []
    if with_workers:
        parts.append(_workers(status.workers, width))
    if with_checks:
        parts.append("".join(f"{line}\n" for line in status.checks or ("checks    nothing found",)))
    return "\n".join(parts)


def _schedules(lines: Sequence[Standing], status: Status, width: int) -> str:
    now = status.now
    rows = [("SCHEDULE", "SYNC", "HEALTH", "WAITING", "NEXT")]
    rows += [
        (
            line.name,
            line.sync.value,
            line.health.value,
            str(line.waiting or "-"),
            "-" if line.next_at is None else f"{local_short(line.next_at, UTC)} (in {_span(line.next_at - now)})",
        )
        for line in lines
    ]
    # Which file and line it is, or which secret, stands in full below the table.
    lacking = {text for worker in status.workers for texts in worker.unresolved.values() for text in texts}
    details = [
        "its template is broken, see below"
        if line.sync is Sync.HELD
        else "a secret is missing, see below"
        if line.detail in lacking
        else line.detail
        for line in lines
    ]
    return _with_details(rows, details, width)


def _with_details(rows: Sequence[tuple[str, ...]], details: Sequence[str], width: int) -> str:
    """A table with a text for each row: behind it where there is room for all, else below it."""
    head, *body = columns(rows).splitlines()
    wide = max(map(len, (head, *body)))
    has_room = wide + 3 + max(map(len, details)) <= width
    shown = [head]
    for row, detail in zip(body, details, strict=True):
        below = [] if has_room else [f"  {part}" for part in wrap(detail, max(width - 2, 40))]
        shown += [f"{row:<{wide}}   {detail}".rstrip() if has_room else row, *below]
    return "".join(f"{line}\n" for line in shown)


def _replicas(workers: Sequence[WorkerLine]) -> list[str]:
    services = [service for worker in workers for service in worker.services]
    up, wanted = sum(service.up for service in services), sum(service.wanted for service in services)
    return [f"Services  {up} of {counted(wanted, 'replica')} up"] if services else []


def _services(workers: Sequence[WorkerLine], width: int) -> str:
    """The services that are not as they should be, on each worker."""
    rows = [("SERVICE", "STATE", "UP", "RESTARTS", "WORKER")]
    odd = [(worker.id, service) for worker in workers for service in worker.services if not service.is_well]
    rows += [
        (service.name, service.word, f"{service.up}/{service.wanted}", str(service.restarts or "-"), worker)
        for worker, service in odd[:_MOST_LISTED]
    ]
    more = f"… {len(odd) - _MOST_LISTED:,} more; --format json lists all\n" if len(odd) > _MOST_LISTED else ""
    return _with_details(rows, [service.detail for _, service in odd[:_MOST_LISTED]], width) + more


def _notes(status: Status, width: int) -> str:
    """What somebody should know of workers, each thing once."""
    seen: dict[str, list[str]] = {}
    for worker in status.workers:
        for note in worker.notes:
            seen.setdefault(note, []).append(worker.id)
    lines = []
    for note, where in seen.items():
        text = f"note      {', '.join(where)}: {note}"
        lines += wrap(text, max(width, 40), subsequent_indent=" " * 10, break_long_words=False, break_on_hyphens=False)
    return "".join(f"{line}\n" for line in lines)


def _secrets(status: Status, width: int) -> str:
    """Each secret that is missing once, with the apps that lack it and the workers on which they do."""
    seen: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for worker in status.workers:
        for app, texts in worker.unresolved.items():
            for text in texts:
                apps, where = seen.setdefault(text, ({}, {}))
                apps[app] = where[worker.id] = None
    lines = []
    for text, (apps, where) in seen.items():
        words = f"secret    runs of {', '.join(apps)} fail on {', '.join(where)}: {text}"
        lines += wrap(words, max(width, 40), subsequent_indent=" " * 10, break_long_words=False, break_on_hyphens=False)
    return "".join(f"{line}\n" for line in lines)


def _held(status: Status, width: int) -> str:
    """Each broken app once, with the workers on which it is."""
    seen: dict[BrokenApp, list[str]] = {}
    for worker in status.workers:
        for app in worker.broken:
            seen.setdefault(replace(app, since=""), []).append(worker.id)
    lines = []
    for app, where in seen.items():
        since = min(each.since for worker in status.workers for each in worker.broken if each.app == app.app)
        head = f"held      {app.app} on {', '.join(where)}: "
        lines += wrap(
            f"{head}{app.place} {app.problem}, since {_since(since, status.now)}",
            max(width, 40),
            subsequent_indent=" " * 10,
            break_on_hyphens=False,
        )
    return "".join(f"{line}\n" for line in lines)


def _unbuilt(status: Status, width: int) -> str:
    """Each app that waits for its environment once: on which workers it does, and the installer's last words."""
    seen: dict[UnbuiltApp, list[str]] = {}
    for worker in status.workers:
        for app in worker.unbuilt:
            seen.setdefault(replace(app, since=""), []).append(worker.id)
    lines = []
    for app, where in seen.items():
        since = min(each.since for worker in status.workers for each in worker.unbuilt if each.app == app.app)
        text = f"build     {', '.join(where)}: {app.words}, since {_since(since, status.now)}"
        lines += wrap(text, max(width, 40), subsequent_indent=" " * 10, break_on_hyphens=False)
        for said in app.lines:
            lines += wrap(
                said, max(width, 40), initial_indent="          | ", subsequent_indent=" " * 12, break_on_hyphens=False
            )
    return "".join(f"{line}\n" for line in lines)


def _since(text: str, now: datetime) -> str:
    at = instant_from_text(text)
    return "an unknown time" if at is None else f"{utc_text(at)} ({_span(now - at)})"


def _workers(workers: Sequence[WorkerLine], width: int) -> str:
    if not workers:
        return "workers   none is alive\n"
    rows = [("WORKER", "VERSION", "APPS", "UP", "HEARD", "DRIFT", "ZONES", "REVISION", "SOURCE")]
    rows += [
        (
            worker.id,
            worker.version,
            str(worker.apps),
            _span(worker.up),
            f"{_span(worker.beat_age)} ago",
            str(worker.drift or "-"),
            worker.tzdata,
            _revision(worker.revision, width) or "-",
            worker.source,
        )
        for worker in workers
    ]
    return columns(rows, width=width, gap=3 if width >= _WIDE else 2)


def _revision(text: str, width: int) -> str:
    """A digest in fewer digits where there is little room; what else names a revision as it is."""
    is_digest = len(text) == _DIGITS and all(char in "0123456789abcdef" for char in text)
    return text[:8] if is_digest and width < _WIDE else text


def _tally(words: Iterable[str]) -> str:
    counts = Counter(words)
    return ", ".join(f"{number} {word}" for word, number in sorted(counts.items())) or "no schedules"


def _span(span: timedelta) -> str:
    seconds = max(0, round(span.total_seconds()))
    return span_short(timedelta(seconds=seconds)) if seconds else "0s"


def document(status: Status) -> dict[str, Any]:
    """The same for programs."""
    return {
        "v": STATUS_VERSION,
        "now": second_text(status.now),
        "broker": status.broker,
        "namespace": status.namespace,
        "mode": status.mode,
        "backlog": status.backlog,
        "workers": [_worker_document(worker) for worker in status.workers],
        "schedules": [_schedule_document(line) for line in status.schedules],
        "deviations": deviation_documents(status.deviations),
        "checks": list(status.checks),
    }


def _worker_document(worker: WorkerLine) -> dict[str, Any]:
    return {
        "id": worker.id,
        "version": worker.version,
        "apps": worker.apps,
        "up_s": int(worker.up.total_seconds()),
        "beat_age_s": round(worker.beat_age.total_seconds(), 3),
        "drift": worker.drift,
        "broken": [
            {"app": app.app, "place": app.place, "problem": app.problem, "since": app.since or None}
            for app in worker.broken
        ],
        "tzdata": worker.tzdata,
        "evaluator": worker.evaluator,
        "source": worker.source,
        "revision": worker.revision or None,
        "revision_since": worker.revision_since or None,
        "publishing": worker.is_publishing,
        "notes": list(worker.notes),
        "services": [_service_document(service) for service in worker.services],
        "unbuilt": [{**app.to_json(), "lines": list(app.lines), "since": app.since or None} for app in worker.unbuilt],
        "missing_secrets": {app: list(reasons) for app, reasons in worker.unresolved.items()},
    }


def _service_document(service: ServiceStanding) -> Mapping[str, Any]:
    return {
        "name": service.name,
        "state": service.word,
        "wanted": service.wanted,
        "up": service.up,
        "old": service.old,
        "restarts": service.restarts,
        "detail": service.detail,
    }


def _schedule_document(line: Standing) -> Mapping[str, Any]:
    return {
        "name": line.name,
        "sync": line.sync.value,
        "health": line.health.value,
        "next": None if line.next_at is None else instant_text(line.next_at),
        "waiting": line.waiting,
        "detail": line.detail,
    }
