"""`relayctl invoke`: one run of a handler, in a live worker of this machine or here, outside the stream and account."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from relayctl.cli.desk import Desk

app = verb_app()


@app.command()
def invoke(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="APP/NAME", help="a schedule of the app, or one of its handlers")],
    local: Annotated[bool, typer.Option("--local", help="run it here, without a worker")] = False,
    event: Annotated[
        Path | None, typer.Option(metavar="FILE", help="the event as a JSON object; - reads stdin")
    ] = None,
) -> None:
    """Run a handler once.

    It runs in a worker of this state directory, as that worker has the app, and leaves no trace in the fleet. A
    schedule's handler gets the payload of its latest firing unless --event gives another. A run that fails ends with
    exit code 3.
    """
    from relayctl.cli import tree
    from relayctl.cli.desk import Desk, to_json
    from relayctl.cli.eventfile import read_event_file
    from relayctl.cli.exits import Code, Ended

    desk = Desk(context)
    is_text = desk.format({"text": str, "json": str}) == "text"
    name, wanted = tree.split_target(target)
    limit = desk.settings.max_event_bytes
    payload = None if event is None else read_event_file(event, limit, may_be_ours=True).text
    run = _run_here if local else _run_there
    document = run(desk, name, wanted, payload, is_text)
    _tell(desk, document)
    if not is_text:
        desk.deliver({"text": str, "json": lambda: to_json(document)})
    if document["outcome"] != "succeeded":
        if payload is None and document["occurrence_id"] is None:
            desk.remark("  help: its event was {}; --event FILE gives it one")
        raise Ended(Code.FAILURE)


def _run_here(desk: Desk, name: str, wanted: str, event: str | None, is_text: bool) -> Mapping[str, Any]:
    from relayctl.cli import tree
    from relayctl.cli.exits import Code, Ended
    from relayctl.cli.trial import run_trial
    from relayctl.core.trial import trial_names, trial_of
    from relayctl.runners.trialrun import trial_document

    now = desk.now()
    loaded = tree.load_one(desk, name, now)
    if loaded.app is None:
        tree.say_broken(desk, loaded.problems)
        raise Ended(Code.FINDINGS)
    known = [f"{name}/{item}" for item in trial_names(loaded.app)]
    if not wanted:
        raise tree.unknown("handler", name, known)
    trial = trial_of(loaded.app, wanted, event, now)
    if trial is None:
        raise tree.unknown("schedule or handler", f"{name}/{wanted}", known)
    return trial_document(
        trial,
        run_trial(trial, loaded.directory, desk.settings, lambda *line: _show(*line, is_text=is_text), desk.remark),
    )


def _run_there(desk: Desk, name: str, wanted: str, event: str | None, is_text: bool) -> Mapping[str, Any]:
    from relayctl.cli.callworker import call

    return call(desk, name, wanted, event, lambda *line: _show(*line, is_text=is_text))


def _show(stream: str, line: str, *, is_text: bool) -> None:
    import sys

    # In JSON the document holds the output, so stdout stays one document.
    out = sys.stdout if stream == "stdout" and is_text else sys.stderr
    out.write(f"{line}\n")
    out.flush()


def _tell(desk: Desk, document: Mapping[str, Any]) -> None:
    label, took = f"{document['app']}/{document['handler']}", f"({document['duration_s']:.2f} s)"
    if document["outcome"] == "succeeded":
        desk.remark(f"{label} ok {took}")
    else:
        desk.complain(f"{label} {document['outcome']}: {document['reason']} {took}")
