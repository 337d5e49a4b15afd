"""`relayctl status`: the live fleet: is it in sync, and is it healthy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from datetime import datetime

    from relayctl.api import Observation
    from relayctl.render.status import Status, WorkerLine
    from relayctl.store.fleet import WorkerRecord

app = verb_app()


@app.command()
def status(
    context: typer.Context,
    workers: Annotated[bool, typer.Option("--workers", help="list the live workers")] = False,
    counts: Annotated[bool, typer.Option("--counts", help="only the counts")] = False,
    check: Annotated[bool, typer.Option("--check", help="look at the broker, the clocks and the versions")] = False,
    detailed_exitcode: Annotated[bool, typer.Option("--detailed-exitcode", help="end with 10 on drift")] = False,
) -> None:
    """Show the live fleet: what is in sync, what is healthy, and who runs it."""
    from relayctl import api
    from relayctl.cli.desk import Desk, to_json
    from relayctl.cli.exits import Code, Ended, harmless
    from relayctl.cli.fleet import place_of
    from relayctl.host.clock import SystemClock
    from relayctl.render import status as render

    desk = Desk(context)
    place = place_of(desk.settings)
    shown = _status(api.observe(place, SystemClock()), desk.now(), acks=desk.settings.min_replica_acks)
    desk.deliver({
        "text": lambda: harmless(
            render.text(shown, width=desk.look.width, with_workers=workers, with_counts=counts, with_checks=check)
        ),
        "json": lambda: to_json(render.document(shown)),
    })  # fmt: skip
    if detailed_exitcode and shown.has_drift:
        raise Ended(Code.CHANGES)


def _status(observation: Observation, now: datetime, *, acks: int) -> Status:
    from relayctl.api import observed
    from relayctl.core.drift import deviations
    from relayctl.core.standing import standings
    from relayctl.render.status import Status

    broken = {worker.id: worker.broken for worker in observation.workers}
    unresolved = {worker.id: worker.unresolved for worker in observation.workers}
    settings = {name: app.settings for apps in observation.running.workers.values() for name, app in apps.items()}
    declared = {name: [limit for limit in ("cpus", "pids") if found.get(limit)] for name, found in settings.items()}
    return Status(
        now=now,
        broker=f"{observation.broker} · {observation.server.flavour} {observation.server.version_text}",
        namespace=observation.namespace,
        mode=observation.mode or "",
        backlog=observation.backlog,
        workers=tuple(_worker(record, observation, now) for record in observation.workers),
        schedules=standings(observation.running, broken, now, unresolved=unresolved),
        deviations=deviations(observation.running),
        checks=observed.checks(observation, min_replica_acks=acks),
        limits=observed.limits_not_kept(declared, observation.workers),
        newer=observation.newer,
        release=observation.release,
        on_release=observation.on_release,
    )


def _worker(record: WorkerRecord, observation: Observation, now: datetime) -> WorkerLine:
    from relayctl import api
    from relayctl.core.occurrence import instant_from_text
    from relayctl.render.status import WorkerLine

    return WorkerLine(
        id=record.id,
        version=record.version,
        apps=len(observation.running.workers.get(record.id, {})),
        beat_age=api.beat_age(record, now),
        up=now - (instant_from_text(record.started_at) or now),
        drift=record.drift,
        broken=record.broken,
        tzdata=record.tzdata,
        evaluator=record.evaluator,
        source=record.source,
        revision=record.revision,
        revision_since=record.revision_since,
        notes=record.notes,
        is_publishing=record.is_publishing,
        services=record.services,
        unbuilt=record.unbuilt,
        unresolved=record.unresolved,
    )
