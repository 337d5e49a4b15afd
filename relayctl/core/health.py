"""Whether a worker is sound: what was observed of it, judged into checks with reasons. It observes nothing itself.

Live means that the loops come round, ready that scheduling can be relied on; a worker without a broker is live and not
ready, since starting it anew would not help.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from enum import Enum
from typing import Any

from relayctl.core.counting import listed
from relayctl.core.servicestanding import ServiceStanding
from relayctl.core.unbuilt import UnbuiltApp

BEAT_LIMIT_S = 15.0
"""A loop without a sign of life for longer hangs: all its waits, those for a silent broker included, are shorter."""
RECONCILER_BEAT_LIMIT_S = 60.0
"""The reconciler may load a whole tree between two signs of life."""
PASS_LIMIT_S: Mapping[str, float] = {"scheduler": 5.0, "claimer": 10.0, "consumer": 10.0, "reconciler": 10.0}
"""A loop whose last complete pass is older does not keep up; the reconciler is given its interval on top."""
CLOCK_LIMIT_S = 5.0
OUTBOX_LIMIT_S = 60.0
"""A firing may wait so long in the outbox for its answer; the retrier's first three rounds take less."""
OVERDUE_GRACE_S = 10.0
"""A firing that is due may take this long into the stream: retries and lower ranks act a little later."""


class State(Enum):
    """Where a worker is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"


class Weight(Enum):
    """What a failed check means: the worker hangs, scheduling is not sound, or somebody should have a look."""

    LIVE = "live"
    READY = "ready"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSigns:
    """One loop: seconds since it last came round at all, and since its last complete pass (None: it counts none)."""

    beat_age_s: float
    pass_age_s: float | None = None
    is_alive: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What was observed of a worker. `overdue` names firings due longer ago than the grace, the oldest first."""

    worker: str
    pid: int
    version: str
    state: State
    uptime: timedelta
    loops: Mapping[str, LoopSigns]
    resync: timedelta | None
    apps: int
    schedules: int
    armed: int
    running: int
    is_registered: bool
    broker_trouble: str | None = None
    clock_difference: timedelta | None = None
    overdue: Sequence[str] = ()
    overdue_by: timedelta = timedelta()
    outbox_rows: int = 0
    outbox_age: timedelta | None = None
    """How long the oldest row that can be published has waited."""
    outbox_trouble: str | None = None
    source: str = ""
    source_notes: Sequence[str] = ()
    """Why it cannot be asked, or which newer revision of it is not taken, in words."""
    source_busy: str = ""
    """Who has been asking it for a while, and since when, in words."""
    is_source_lost: bool = False
    held_removal: str = ""
    broken: Sequence[str] = ()
    behind: int = 0
    revision: str = ""
    http: str | None = None
    services: Sequence[ServiceStanding] = ()
    unbuilt: Sequence[UnbuiltApp] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One question and its answer; `reason` says what was found."""

    name: str
    weight: Weight
    is_ok: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """What is known of one worker and what to think of it."""

    worker: str
    pid: int
    version: str
    state: str
    uptime: timedelta
    apps: int
    schedules: int
    running: int
    revision: str
    http: str | None
    checks: tuple[Check, ...]

    @property
    def is_live(self) -> bool:
        """Whether its loops beat."""
        return all(check.is_ok for check in self.checks if check.weight is Weight.LIVE)

    @property
    def is_ready(self) -> bool:
        """Whether scheduling is sound here."""
        return all(check.is_ok for check in self.checks if check.weight is not Weight.NOTE)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that failed, notes included."""
        return tuple(check for check in self.checks if not check.is_ok)

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON document."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "uptime_s": round(self.uptime.total_seconds(), 3),
            "live": self.is_live,
            "ready": self.is_ready,
            "checks": [asdict(check) | {"weight": check.weight.value} for check in self.checks],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> HealthReport:
        """Read a report; raises KeyError, TypeError or ValueError where it is none."""
        return cls(
            **{name: document[name] for name in _PLAIN},
            uptime=timedelta(seconds=float(document["uptime_s"])),
            checks=tuple(
                Check(
                    name=str(item["name"]),
                    weight=Weight(item["weight"]),
                    is_ok=item["is_ok"] is True,
                    reason=str(item["reason"]),
                )
                for item in document["checks"]
            ),
        )


_PLAIN = ("worker", "pid", "version", "state", "apps", "schedules", "running", "revision", "http")


def judge(signs: Signs) -> HealthReport:
    """Every check over what was observed."""
    checks = [*_beats(signs), _state(signs)]
    if signs.state is not State.STARTING:
        checks += [
            _broker(signs), *_passes(signs), _registered(signs), _due(signs), _outbox(signs), _clock(signs),
            _source(signs), _removals(signs), _templates(signs), _environments(signs), _drift(signs),
            _services(signs),
        ]  # fmt: skip
    return HealthReport(
        worker=signs.worker,
        pid=signs.pid,
        version=signs.version,
        state=signs.state.value,
        uptime=signs.uptime,
        apps=signs.apps,
        schedules=signs.schedules,
        running=signs.running,
        revision=signs.revision,
        http=signs.http,
        checks=tuple(checks),
    )


def unanswering(worker: str, reason: str) -> HealthReport:
    """The report of a worker that exists and does not answer."""
    check = Check(name="answer", weight=Weight.LIVE, is_ok=False, reason=reason)
    return HealthReport(
        worker=worker,
        pid=0,
        version="",
        state="silent",
        uptime=timedelta(),
        apps=0,
        schedules=0,
        running=0,
        revision="",
        http=None,
        checks=(check,),
    )


def _beats(signs: Signs) -> Iterable[Check]:
    for name, loop in signs.loops.items():
        limit = RECONCILER_BEAT_LIMIT_S if name == "reconciler" else BEAT_LIMIT_S
        if not loop.is_alive:
            yield Check(name=f"loop:{name}", weight=Weight.LIVE, is_ok=False, reason=f"the {name} loop has died")
        elif loop.pass_age_s is not None and loop.beat_age_s > limit:
            reason = f"the {name} loop hangs: no sign of life for {_s(loop.beat_age_s)}, at most {_s(limit)} are usual"
            yield Check(name=f"loop:{name}", weight=Weight.LIVE, is_ok=False, reason=reason)
        else:
            yield Check(name=f"loop:{name}", weight=Weight.LIVE, is_ok=True, reason=f"the {name} loop comes round")


def _passes(signs: Signs) -> Iterable[Check]:
    for name, loop in signs.loops.items():
        if loop.pass_age_s is None or name not in PASS_LIMIT_S:
            continue
        limit = PASS_LIMIT_S[name]
        if name == "reconciler" and signs.resync is not None:
            limit += signs.resync.total_seconds()
        is_ok = loop.pass_age_s <= limit
        reason = f"last complete pass {_s(loop.pass_age_s)} ago, at most {_s(limit)} are in order"
        yield Check(name=f"pass:{name}", weight=Weight.READY, is_ok=is_ok, reason=reason)


def _state(signs: Signs) -> Check:
    reasons = {
        State.STARTING: "the worker is starting",
        State.RUNNING: "the worker takes work",
        State.DRAINING: "the worker is draining and takes nothing new",
    }
    return Check(name="state", weight=Weight.READY, is_ok=signs.state is State.RUNNING, reason=reasons[signs.state])


def _broker(signs: Signs) -> Check:
    trouble = signs.broker_trouble
    reason = "the broker answers" if trouble is None else f"the broker does not serve: {trouble}"
    return Check(name="broker", weight=Weight.READY, is_ok=trouble is None, reason=reason)


def _registered(signs: Signs) -> Check:
    reason = "what it holds is registered" if signs.is_registered else "its schedules are not registered yet"
    return Check(name="registered", weight=Weight.READY, is_ok=signs.is_registered, reason=reason)


def _due(signs: Signs) -> Check:
    reason = "nothing due is unpublished"
    if signs.overdue:
        first, more = signs.overdue[0], len(signs.overdue) - 1
        reason = f"{first} was due {_s(signs.overdue_by.total_seconds())} ago and is not published"
        reason += f" (and {more} more)" if more else ""
    return Check(name="due", weight=Weight.READY, is_ok=not signs.overdue, reason=reason)


def _outbox(signs: Signs) -> Check:
    if signs.outbox_trouble is not None:
        return Check(name="outbox", weight=Weight.READY, is_ok=False, reason=signs.outbox_trouble)
    age_s = 0.0 if signs.outbox_age is None else signs.outbox_age.total_seconds()
    reason = "nothing waits in the outbox"
    if signs.outbox_rows:
        rows = f"{signs.outbox_rows} {'firing waits' if signs.outbox_rows == 1 else 'firings wait'} in the outbox"
        reason = f"{rows}, the oldest for {_s(age_s)}, at most {_s(OUTBOX_LIMIT_S)} are in order"
    return Check(name="outbox", weight=Weight.READY, is_ok=age_s <= OUTBOX_LIMIT_S, reason=reason)


def _clock(signs: Signs) -> Check:
    found = signs.clock_difference
    if found is None:
        return Check(name="clock", weight=Weight.READY, is_ok=True, reason="not compared: the broker was not asked")
    seconds = found.total_seconds()
    reason = (
        f"this machine's clock and the broker's differ by {_s(abs(seconds))}, at most {_s(CLOCK_LIMIT_S)} are in order"
    )
    return Check(name="clock", weight=Weight.READY, is_ok=abs(seconds) <= CLOCK_LIMIT_S, reason=reason)


def _source(signs: Signs) -> Check:
    reason = f"{signs.source} can be read"
    because = "".join(f": {note}" for note in signs.source_notes)
    if signs.is_source_lost:
        reason = f"{signs.source} cannot be read; everything keeps running as it was{because}"
    elif because:
        reason = f"{signs.source}{because}"
    if signs.source_busy:
        reason = f"{reason}; it is being fetched by {signs.source_busy}"
    is_ok = not signs.is_source_lost and not because
    return Check(name="source", weight=Weight.NOTE, is_ok=is_ok, reason=reason)


def _removals(signs: Signs) -> Check:
    held = signs.held_removal
    reason = "no removal is held"
    if held:
        reason = f"removals are held; if intended: relayctl reconcile --accept-removals {held}"
    return Check(name="removals", weight=Weight.NOTE, is_ok=not held, reason=reason)


def _templates(signs: Signs) -> Check:
    broken = list(signs.broken)
    reason = "every template is valid"
    if broken:
        reason = f"broken: {listed(broken, 5)}; relayctl validate says why"
    return Check(name="templates", weight=Weight.NOTE, is_ok=not broken, reason=reason)


def _environments(signs: Signs) -> Check:
    failing = [app for app in signs.unbuilt if app.is_failing]
    reason = "every app has what it needs"
    if failing:
        more = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
        reason = f"{failing[0].words}{more}; relayctl status shows the last lines"
    elif signs.unbuilt:
        reason = "; ".join(app.words for app in signs.unbuilt[:3])
    return Check(name="environments", weight=Weight.NOTE, is_ok=not failing, reason=reason)


def _drift(signs: Signs) -> Check:
    reason = "the fleet runs what the files here say"
    if signs.behind:
        reason = (
            f"{signs.behind} {'schedule is' if signs.behind == 1 else 'schedules are'} behind the fleet's definition"
        )
    return Check(name="drift", weight=Weight.NOTE, is_ok=not signs.behind, reason=reason)


def _services(signs: Signs) -> Check:
    odd = [service for service in signs.services if service.old or service.detail or service.is_looping]
    reason = "every service runs" if signs.services else "there are no services"
    if odd:
        first, more = odd[0], f" (and {len(odd) - 1} more)" if len(odd) > 1 else ""
        detail = f": {first.detail}" if first.detail else ""
        reason = f"{first.name} is {first.word}, {first.up} of {first.wanted} up{detail}{more}"
    return Check(name="services", weight=Weight.NOTE, is_ok=not odd, reason=reason)


def _s(seconds: float) -> str:
    return f"{seconds:.1f}".removesuffix(".0") + " s"
