"""`relayctl emit`: appends an event to the stream, or says which rules would want it. It starts no broker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from relayctl.cli.desk import Desk
    from relayctl.cli.eventfile import Event

app = verb_app()


@app.command()
def emit(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="FILE", help="the event, one JSON object; - reads stdin")],
    explain: Annotated[
        bool, typer.Option("--explain", help="say which rules of the apps want it and why not, and send nothing")
    ] = False,
) -> None:
    """Append an event to the stream.

    Prints the id of its entry. --explain needs no broker.
    """
    from relayctl.cli.desk import Desk, to_json
    from relayctl.cli.eventfile import read_event_file
    from relayctl.cli.fleet import warn_unreplicated

    desk = Desk(context)
    event = read_event_file(source, desk.settings.max_event_bytes)
    if explain:
        _explain(desk, event)
        return
    desk.format({"text": str, "json": str})
    entry, replicated = _append(desk, event)
    warn_unreplicated(desk, replicated)
    document = {"v": 1, "entry": entry, "namespace": desk.settings.namespace, "replicated": replicated}
    desk.deliver({"text": lambda: f"{entry}\n", "json": lambda: to_json(document)})


def _append(desk: Desk, event: Event) -> tuple[str, bool | None]:
    """The entry's id, and whether its replicas hold it."""
    from relayctl.broker.choose import resolve_broker
    from relayctl.host.clock import SystemClock
    from relayctl.host.state import StateDir
    from relayctl.store.connect import connect
    from relayctl.store.keys import Keys
    from relayctl.store.replicas import Replicas
    from relayctl.store.stream import Stream

    settings = desk.settings
    broker = resolve_broker(
        explicit_url=settings.redis_url, state=StateDir(settings.state_dir), may_start=False, clock=SystemClock()
    )
    client = connect(broker.target, client_name="relayctl-emit")
    try:
        keys = Keys(settings.namespace)
        entry = Stream(client, keys).emit(event.text)
        return entry, Replicas(client, keys, settings.min_replica_acks).confirm()
    finally:
        client.close()
        broker.close()


def _explain(desk: Desk, event: Event) -> None:
    from relayctl.cli import tree
    from relayctl.cli.desk import to_json
    from relayctl.cli.exits import harmless
    from relayctl.render.emit import RuleAnswer, as_document, text

    now = desk.now()
    loaded = tree.load(desk, now)
    tree.say_broken(desk, loaded.problems)
    answers = [
        RuleAnswer(
            app=each.name,
            handler=rule.contract.handler,
            mismatches=tuple(rule.pattern.explain(event.value, now)),
        )
        for each in loaded.apps
        if each.app is not None
        for rule in each.app.events
    ]
    desk.deliver({"text": lambda: harmless(text(answers)), "json": lambda: to_json(as_document(answers))})
