"""`relayctl mode`: whether this namespace lives from releases (push) or from files that its workers follow (pull)."""

from __future__ import annotations

from typing import Annotated

import typer

from relayctl.cli.verb import verb_app

app = verb_app()
_WORDS = {
    "push": "push mode: workers follow releases (relayctl serve --follow), and relayctl apply publishes them",
    "pull": "pull mode: workers follow a directory or git, and take what changes there by themselves",
    None: "no mode yet: the first relayctl serve or relayctl apply decides",
}


@app.command()
def mode(
    context: typer.Context,
    wanted: Annotated[str | None, typer.Argument(metavar="[push|pull]", help="change it")] = None,
) -> None:
    """Show how this namespace gets its desired state, or change that.

    It changes only while no worker lives that needs the present mode; an embedded broker, which ended with the last
    worker, is started for as long as this takes. To push, what is registered now stays in force
    until the next release, and workers that follow run the files of the last one there was; to pull, what a release
    bound workers to binds them no more.
    """
    from relayctl.api.modes import look_at_mode
    from relayctl.cli.desk import Desk, to_json
    from relayctl.cli.fleet import place_of
    from relayctl.errors import UsageError
    from relayctl.host.clock import SystemClock

    desk = Desk(context)
    if wanted not in {None, "push", "pull"}:
        raise UsageError(f"no mode {wanted!a}; there are push and pull", help="relayctl mode push")
    found = look_at_mode(place_of(desk.settings), SystemClock(), wanted)
    now, namespace = found.mode, desk.settings.namespace
    verb = "is now in" if found.is_changed else "is in" if now else "has"
    following = _next(now, found.last_release) if found.is_changed else ""
    desk.deliver({
        "text": lambda: f"namespace {namespace} {verb} {_WORDS[now]}\n{following}",
        "json": lambda: to_json({"v": 1, "namespace": namespace, "mode": now, "changed": found.is_changed}),
    })  # fmt: skip


def _next(now: str | None, last: int) -> str:
    if now != "push":
        return "next: relayctl serve\n"
    until = f"; until then workers that follow run the files of release {last}" if last else ""
    return f"next: relayctl serve --follow, and relayctl apply{until}\n"
