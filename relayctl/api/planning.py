"""What a tree would change in what runs, and making it so. It asks nobody whether it may."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from relayctl.api.desired import read_desired
from relayctl.api.observation import observe_or_nothing, with_removed
from relayctl.core.definition import TOMBSTONE
from relayctl.core.diff import make_plan
from relayctl.core.plan import Plan
from relayctl.core.running import Running

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from relayctl.api.desired import Desired
    from relayctl.api.observation import Observation
    from relayctl.api.place import Place
    from relayctl.core.planfile import Basis
    from relayctl.core.release import Release
    from relayctl.core.removal import Limits
    from relayctl.host.clock import Clock


def plan(
    apps: Path,
    place: Place,
    *,
    now: datetime | None = None,
    horizon: timedelta = timedelta(hours=24),
    clock: Clock | None = None,
) -> Plan:
    """What a directory of apps would change in what runs, as of `now` (an aware instant; the clock's by default).

    `horizon` is the time over which firings are counted. No code of the apps is run and nothing is changed; an app with
    an error is part of the answer. Raises NoTemplates, or as `observe`; where no broker is named and none runs, nothing
    does.
    """
    from relayctl.host.clock import SystemClock

    clock = clock or SystemClock()
    now = now or clock.now().replace(microsecond=0)
    desired, observation = read_desired(apps, now), observe_or_nothing(place, clock, with_last=False)
    if observation is not None:
        observation = with_removed(observation, desired, place, clock)
    return plan_of(desired, observation, now=now, horizon=horizon)


def plan_of(
    desired: Desired, observation: Observation | None, *, now: datetime, horizon: timedelta = timedelta(hours=24)
) -> Plan:
    """What making `desired` so would change in what was observed (None: nothing runs), as of `now`, an aware instant.

    `horizon` is the time over which firings are counted, also those of `desired.firings`. Raises nothing: a broken app
    is part of the answer.
    """
    return make_plan(
        desired.descriptions,
        observation.running if observation is not None else Running(workers={}, registry={}),
        now=now,
        broken=desired.broken,
        horizon=horizon,
        counted=desired.firings,
    )


def compare(desired: Desired, other: Desired, *, now: datetime, horizon: timedelta = timedelta(hours=24)) -> Plan:
    """What `desired` would change if just that ran which the valid apps of `other` say; no fleet is asked."""
    return make_plan(
        desired.descriptions,
        Running(workers={"": other.descriptions}, registry={}),
        now=now,
        broken=desired.broken,
        horizon=horizon,
        counted=desired.firings,
    )


def basis(observation: Observation | None, *, template: str, namespace: str, release: int | None = None) -> Basis:
    """What a plan made from this observation rests on; `template` is the digest of the tree, `release` a serial where
    it is not the observed one.
    """
    from relayctl.core.planfile import Basis, running_digest

    running = Running(workers={}, registry={}) if observation is None else observation.running
    seen = None if observation is None or observation.release is None else observation.release.serial
    return Basis(
        namespace=namespace,
        epoch="" if observation is None else observation.epoch,
        release=seen if release is None else release,
        running=running_digest(running),
        template=template,
        schedules=sum(1 for entry in running.registry.values() if entry.hash != TOMBSTONE),
    )


def apply(
    apps: Path,
    place: Place,
    *,
    by: str = "",
    message: str = "",
    max_bytes: int = 8 << 20,
    limits: Limits | None = None,
    within: timedelta = timedelta(seconds=60),
    clock: Clock | None = None,
) -> tuple[Release | None, Mapping[str, tuple[str, ...]]]:
    """Publish a directory of apps as a release, and wait until every live worker has it, or the time is over.

    The release (None where nothing was to be changed), and what keeps each live worker from it. `by` is user@host if
    empty, `max_bytes` bounds the packed tree, `limits` what may be removed. Raises as `observe`, and NoTemplates,
    InvalidTemplates, FileFailure, Refused, ModeConflict, StateBusy, StalePlan.
    """
    import os

    from relayctl.api.applying import Author, publish_tree
    from relayctl.host.clock import SystemClock
    from relayctl.host.operator import operator

    author = Author(by=by or operator(), pid=os.getpid(), command="relayctl.api.apply", message=message)
    clock = clock or SystemClock()
    return publish_tree(apps, place, clock, author, max_bytes=max_bytes, limits=limits, within=within)
