"""What rules say that no file alone decides, for all that show a plan. It asks only for the secrets of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from relayctl.api import Observation
    from relayctl.core.description import Description
    from relayctl.settings import Settings


def foreseen_of(
    settings: Settings, wanted: Mapping[str, Description], observation: Observation | None, now: datetime
) -> tuple[str, ...]:
    """What rules say that look at the fleet, or at the secrets of this machine where the workers are on it."""
    from relayctl.api import foreseen
    from relayctl.core.zones import tzdata_version
    from relayctl.host.secrets import SecretStore
    from relayctl.host.state import StateDir

    found: list[str] = []
    if observation is not None:
        names = {(app, name) for app, each in wanted.items() for name in each.schedules}
        found += foreseen.zone_data(tzdata_version(), [each.tzdata for each in observation.workers], wanted.values())
        found += foreseen.long_pauses(observation.running.registry, names, now)
    if settings.redis_url is None:
        store = SecretStore(settings.secrets_dir, StateDir(settings.state_dir).secrets)
        found += foreseen.undefined_secrets(wanted, store.names())
    return tuple(found)
