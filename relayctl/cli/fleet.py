"""The fleet for a command that asks it: where to look, by the settings in force."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relayctl.api import Observation, Place
    from relayctl.cli.desk import Desk
    from relayctl.settings import Settings


def place_of(settings: Settings) -> Place:
    """The broker and namespace that the settings mean."""
    from relayctl.api import Place

    return Place(
        redis_url=settings.redis_url,
        state_dir=settings.state_dir,
        namespace=settings.namespace,
        min_replica_acks=settings.min_replica_acks,
    )


def running_of(observation: Observation | None, namespace: str) -> str:
    """What runs there, for the head of a plan; None where there is no broker."""
    from relayctl.render.status import running_words

    if observation is None:
        return running_words(None, None, namespace)
    words = running_words(
        len(observation.workers),
        observation.mode,
        observation.namespace,
        observation.release,
        observation.on_release,
    )
    return " · ".join((words, *(f"of a newer relayctl: {newer}" for newer in observation.newer)))


def asked_of(context: Any, target: str) -> tuple[Desk, Place, str, str]:
    """What a command on one schedule begins with: its desk, where the fleet is, the app and the schedule's name."""
    from relayctl.cli.desk import Desk
    from relayctl.cli.tree import split_schedule

    desk = Desk(context)
    app, schedule = split_schedule(target)
    return desk, place_of(desk.settings), app, schedule


def warn_unreplicated(desk: Desk, replicated: bool | None) -> None:
    """Say that an order stands, and that a fail-over could still lose it."""
    if replicated is False:
        wanted = desk.settings.min_replica_acks
        desk.complain(
            f"warning: accepted, not replicated: fewer than {wanted} {'replica' if wanted == 1 else 'replicas'} "
            "confirmed it within a second, so a fail-over now could lose it"
        )
