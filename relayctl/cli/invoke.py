"""`relayctl invoke --local`: one run of a handler here, with no worker and no broker, as a developer tries one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from relayctl.cli.desk import Desk
    from relayctl.cli.trial import Trial
    from relayctl.runners.invocation import Ended

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

    A schedule's handler gets the payload of its latest firing unless --event gives another.
    A run that fails ends with exit code 3.
    """
    from relayctl.cli.desk import Desk, to_json
    from relayctl.cli.exits import Code, Ended
    from relayctl.cli.trial import as_document
    from relayctl.errors import UsageError

    if not local:
        raise UsageError("invoke runs a handler on this machine", help=f"relayctl invoke {target} --local")
    desk = Desk(context)
    trial = _trial(desk, target, event)
    is_text = desk.format({"text": str, "json": str}) == "text"
    ended = _run(desk, trial, is_text)
    if not is_text:
        desk.deliver({"text": str, "json": lambda: to_json(as_document(trial, ended))})
    if ended.outcome.value != "succeeded":
        raise Ended(Code.FAILURE)


def _trial(desk: Desk, target: str, event: Path | None) -> Trial:
    from relayctl.cli import tree
    from relayctl.cli.eventfile import read_event_file
    from relayctl.cli.exits import Code, Ended
    from relayctl.cli.trial import trial_of

    name, wanted = tree.split_target(target)
    now = desk.now()
    loaded = tree.load_one(desk, name, now)
    if loaded.app is None:
        tree.say_broken(desk, loaded.problems)
        raise Ended(Code.FINDINGS)
    known = [*(schedule.name for schedule in loaded.app.schedules), *sorted(loaded.app.handlers())]
    if not wanted:
        raise tree.unknown("handler", target, [f"{name}/{item}" for item in known])
    limit = desk.settings.max_event_bytes
    payload = None if event is None else read_event_file(event, limit, may_be_ours=True).text
    found = trial_of(loaded.app, loaded.directory, wanted, payload, now)
    if found is None:
        raise tree.unknown("schedule or handler", target, [f"{name}/{item}" for item in known])
    return found


def _run(desk: Desk, trial: Trial, is_text: bool) -> Ended:
    import sys

    from relayctl.cli.trial import run_trial

    def show(stream: str, line: str) -> None:
        # In JSON the document holds the output, so stdout stays one document.
        out = sys.stdout if stream == "stdout" and is_text else sys.stderr
        out.write(f"{line}\n")
        out.flush()

    ended = run_trial(trial, desk.settings, show)
    took = f"({ended.duration_s:.2f} s)"
    if ended.outcome.value == "succeeded":
        desk.remark(f"{trial.label} ok {took}")
    else:
        desk.complain(f"{trial.label} {ended.outcome.value}: {ended.reason} {took}")
    return ended
