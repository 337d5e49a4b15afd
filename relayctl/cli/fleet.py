"""The fleet for a command that asks it: where to look, by the settings in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relayctl.api import Place
    from relayctl.settings import Settings


def place_of(settings: Settings) -> Place:
    """The broker and namespace that the settings mean."""
    from relayctl.api import Place

    return Place(redis_url=settings.redis_url, state_dir=settings.state_dir, namespace=settings.namespace)
