"""What a running fleet says of each schedule, in the words of a table: how it stands, what is odd, how it last went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta, tzinfo

from relayctl.core.forecast import zone_of
from relayctl.core.model import App
from relayctl.core.occurrence import instant_from_text
from relayctl.core.plan import Action, Change, Item, Plan
from relayctl.core.release import Release
from relayctl.core.running import LastRun, Name, Running
from relayctl.core.standing import Health, Standing, Sync
from relayctl.render.instants import local_text, span_text, utc_text

_NOT_APPLIED = {
    Action.CREATE: "new, not applied",
    Action.CHANGE: "changed, not applied",
    Action.REFIRE: "other firings, not applied",
}

_LEFT_OUT = "left out: every live worker is for other apps (--only)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What the fleet says of one schedule, already in words. `state` is the table's last column, '' for nothing odd."""

    sync: str = ""
    health: str = ""
    state: str = ""
    last: str = ""
    release: str = ""
    capped_to: timedelta | None = None
    is_paused: bool = False
    is_drifted: bool = False
    is_unapplied: bool = False


def live_of(
    apps: Iterable[App],
    running: Running,
    standings: Iterable[Standing],
    plan: Plan,
    release: Release | None = None,
) -> dict[Name, Live]:
    """By schedule of these apps. `plan` compares them with what runs; `release` is the one in force."""
    stands: Mapping[Name, Standing] = {(each.app, each.schedule): each for each in standings}
    changes: dict[Name, list[Change]] = {}
    for change in plan.changes:
        if change.item is Item.SCHEDULE:
            changes.setdefault((change.app, change.name), []).append(change)
    found: dict[Name, Live] = {}
    for app in apps:
        is_left_out = _is_left_out(app.name, running)
        for schedule in app.schedules:
            name = (app.name, schedule.name)
            entry = running.registry.get(name)
            last = entry.last if entry is not None else None
            live = _live(stands.get(name), changes.get(name, []), _last(last, zone_of(schedule.trigger)))
            if is_left_out and entry is None:
                live = replace(live, state=_LEFT_OUT, is_unapplied=False)
            is_capped = running.cap is not None and schedule.contract.timeout > running.cap
            # Of a schedule that was changed since, the release has other words than the file that is shown.
            is_released = release is not None and app.name in release.revisions and not live.is_unapplied
            found[name] = replace(
                live,
                capped_to=running.cap if is_capped else None,
                release=_release_words(release) if release is not None and is_released else "",
            )
    return found


def _is_left_out(app: str, running: Running) -> bool:
    """Whether every live worker is for some apps only, and none of them for this one."""
    is_chosen = bool(running.workers) and running.partial.issuperset(running.workers)
    return is_chosen and running.is_reported and not any(app in apps for apps in running.workers.values())


def _release_words(release: Release) -> str:
    """`release 119 at 3f9c1ab`, the commit where it is known."""
    return f"release {release.serial}" + (f" at {release.draft.commit[:7]}" if release.draft.commit else "")


def _live(standing: Standing | None, changes: list[Change], last: str) -> Live:
    unapplied = next((_NOT_APPLIED[change.action] for change in changes if change.action in _NOT_APPLIED), "")
    drifted = [change.worker for change in changes if change.action is Action.RESTORE]
    is_paused = standing is not None and standing.health is Health.PAUSED
    parts = [_paused(changes)] if is_paused else []
    parts += [unapplied] if unapplied else []
    parts += [f"drifted on {', '.join(drifted)}"] if drifted else []
    parts += [] if standing is None or unapplied else _odd(standing, is_drifted=bool(drifted))
    return Live(
        sync=_sync(standing, is_off=bool(unapplied or drifted)),
        health="" if standing is None else standing.health.value,
        state="; ".join(parts),
        last=last,
        is_paused=is_paused,
        is_drifted=bool(drifted),
        is_unapplied=bool(unapplied),
    )


def _paused(changes: list[Change]) -> str:
    found = next((change for change in changes if change.paused_at is not None), None)
    if found is None or found.paused_at is None:
        return "paused"
    return f"paused since {utc_text(found.paused_at)} {found.pause_note}".rstrip()


def _odd(standing: Standing, *, is_drifted: bool) -> list[str]:
    found = []
    if standing.sync is Sync.UNKNOWN:
        found.append("no live worker has it")
    elif standing.sync is Sync.OUT_OF_SYNC and not is_drifted:
        found.append("out of sync")
    elif standing.sync is Sync.HELD:
        found.append("held by a worker: its template is broken there")
    if standing.health in {Health.OVERDUE, Health.FAILING}:
        found.append(standing.health.value.lower())
    return found


def _sync(standing: Standing | None, *, is_off: bool) -> str:
    if standing is None:
        return "Not running"
    return Sync.OUT_OF_SYNC.value if is_off and standing.sync is Sync.SYNCED else standing.sync.value


def _last(last: LastRun | None, zone: tzinfo) -> str:
    """`Tue 2026-09-29 03:00 CEST    ok in 8.2 s    1 attempt`."""
    at = None if last is None else instant_from_text(last.scheduled_at)
    if last is None or at is None:
        return ""
    took = f" in {span_text(timedelta(milliseconds=last.took_ms))}" if last.took_ms > 0 else ""
    how = f"ok{took}" if last.verdict == "succeeded" else last.verdict
    if last.reason and last.verdict != "succeeded":
        how += f" ({last.reason})"
    attempts = f"{last.attempts} attempt{'' if last.attempts == 1 else 's'}" if last.attempts else ""
    return "    ".join(part for part in (local_text(at, zone), how, attempts) if part)
