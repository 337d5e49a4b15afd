"""Rules that only `plan` can judge, since they are about the fleet: other zone data, old pauses, secrets without value.

It says each in words that begin with the code of the rule; what is found in a file is a Problem, and not made here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from relayctl.core.counting import listed

if TYPE_CHECKING:
    from relayctl.core.description import Description
    from relayctl.core.running import Name, RunningSchedule

_LONG = timedelta(days=1)
"""A pause without a reason may be an operator's who is at work; after so long it is forgotten."""
_GRACE = timedelta(minutes=5)
"""So long after its end a pause is still being lifted."""
_MOST_NAMED = 3
_REFERENCES = "secrets."


def zone_data(own: str, theirs: Sequence[str], descriptions: Iterable[Description]) -> tuple[str, ...]:
    """RLY307: workers whose zone data is not this machine's, where any schedule has a zone that it matters for."""
    zoned = sum(
        1 for each in descriptions for fields in each.schedules.values() if fields.get("timezone", "UTC") not in _FIXED
    )
    others = [version for version in theirs if version and version != own]
    if not zoned or not others:
        return ()
    count = f"{len(others)} of {len(theirs)} live {'worker' if len(theirs) == 1 else 'workers'}"
    hit = f"{zoned} {'schedule' if zoned == 1 else 'schedules'} with a time zone"
    versions = ", ".join(sorted(set(others)))
    differs = f"RLY307 zone data is {own} here and {versions} on {count}"
    return (f"{differs}: firings of {hit} may differ from those shown; install one version of tzdata everywhere",)


_FIXED = frozenset({"", "UTC", "Etc/UTC"})


def long_pauses(registry: Mapping[Name, RunningSchedule], wanted: Collection[Name], now: datetime) -> tuple[str, ...]:
    """RLY507: schedules that stay paused without a reason, or though their pause should be over.

    `wanted` are the schedules that the templates declare; `now` is an aware instant.
    """
    silent, overdue = [], []
    for (app, name), entry in sorted(registry.items()):
        if entry.paused_at is None or (app, name) not in wanted:
            continue
        if entry.paused_until is not None and now - entry.paused_until > _GRACE:
            overdue.append(f"{app}/{name} should have gone on at {entry.paused_until:%Y-%m-%d %H:%M}Z")
        elif not entry.pause_reason and entry.paused_until is None and now - entry.paused_at >= _LONG:
            days = (now - entry.paused_at) // timedelta(days=1)
            silent.append(f"{app}/{name} since {entry.paused_at:%Y-%m-%d} ({days} {'day' if days == 1 else 'days'})")
    found = []
    if silent:
        found.append(
            f"RLY507 paused with no reason: {listed(silent, _MOST_NAMED)}; end it with relayctl resume, "
            "or say why with relayctl pause --reason"
        )
    if overdue:
        names = listed(overdue, _MOST_NAMED)
        found.append(f"RLY507 paused past the end of the pause: {names}; relayctl resume lifts it")
    return tuple(found)


def undefined_secrets(descriptions: Mapping[str, Description], known: Collection[str]) -> tuple[str, ...]:
    """RLY605: references of the templates that have no value among `known`."""
    users: dict[str, list[str]] = defaultdict(list)
    for app, each in sorted(descriptions.items()):
        for name, reference in each.settings.items():
            if name.startswith(_REFERENCES) and reference not in known:
                users[reference].append(app)
    if not users:
        return ()
    words = [f"{reference} (in {', '.join(dict.fromkeys(apps))})" for reference, apps in sorted(users.items())]
    count = f"{len(users)} {'secret has' if len(users) == 1 else 'secrets have'} no value on this machine"
    return (f"RLY605 {count}: {listed(words, _MOST_NAMED)}; set it with  relayctl secret set {min(users)}",)
