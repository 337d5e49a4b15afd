"""RLY708 over all apps of a tree: schedules that say they go on for one that another one, or it itself, goes on for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from relayctl.core.model import App
from relayctl.core.problem import Place, Problem, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Heir:
    """A schedule and the one that it says it was, both as app/schedule."""

    name: str
    former: str
    place: Place


def heirs_of(app: App) -> tuple[Heir, ...]:
    """The schedules of an app that say so."""
    return tuple(
        Heir(name=f"{app.name}/{each.name}", former="/".join(each.moved_from), place=each.place or Place(file=app.name))
        for each in app.schedules
        if each.moved_from is not None
    )


def former_apps(heirs: Iterable[Heir]) -> set[str]:
    """The apps that schedules of others say they come from; what is said within one app is judged with that app."""
    pairs = ((heir.name.partition("/")[0], heir.former.partition("/")[0]) for heir in heirs)
    return {former for app, former in pairs if former != app}


def contested(heirs: Iterable[Heir], standing: Collection[str]) -> list[Problem]:
    """One warning for each that cannot go on for what it names: that is still among `standing`, the schedules of
    `former_apps` as app/schedule, or another one comes before it by name."""
    claims: dict[str, list[Heir]] = {}
    for heir in sorted(heirs, key=lambda each: each.name):
        claims.setdefault(heir.former, []).append(heir)
    found = []
    for former, others in claims.items():
        if former in standing:
            found += [_standing(heir) for heir in others]
        else:
            found += [_late(heir, others) for heir in others[1:]]
    return found


def _standing(heir: Heir) -> Problem:
    return Problem(
        code="RLY708",
        severity=Severity.WARNING,
        place=heir.place,
        message=f"it is moved from {heir.former}, which is still here: nothing is moved, and 2 schedules run",
        help=f"remove {heir.former} in the same change, or  moved_from:  where both are to run",
    )


def _late(heir: Heir, claims: Sequence[Heir]) -> Problem:
    return Problem(
        code="RLY708",
        severity=Severity.WARNING,
        place=heir.place,
        message=f"{len(claims)} schedules are moved from {heir.former}, and {claims[0].name} takes over",
        help="keep  moved_from:  in the one that goes on for it",
    )
