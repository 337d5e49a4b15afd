"""`relayctl logs`: what runs printed, as far as it is kept, or as it comes."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from relayctl.cli.verb import verb_app
from relayctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from relayctl.cli.desk import Desk
    from relayctl.core.runlog import Follower, RunLog
    from relayctl.store.logs import Logs

app = verb_app()
_LOOK_EVERY_S = 0.5
_MESSAGE = re.compile(r"[0-9]{10,}-[0-9]+", re.ASCII)


@app.command()
def logs(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="APP/NAME[@WHEN]",
            help="a schedule or handler of the app; of a schedule's firings an instant, a date or latest; "
            "of any runs a message",
        ),
    ],
    attempt: Annotated[
        int | None, typer.Option("--attempt", metavar="N", min=1, help="only the attempt of this number")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="go on until the run has ended")] = False,
) -> None:
    """Show what past runs printed, and what a running one prints.

    Without @ it is the newest run. The last 16 KiB of an attempt are kept, of the newest 50 attempts of a schedule or
    event handler, for 30 days. With --follow new lines come about a second after they were printed, and the command
    ends with the run, whatever its verdict; a firing that is not published yet is waited for.
    """
    from relayctl import api
    from relayctl.cli.desk import Desk, to_json
    from relayctl.cli.exits import harmless
    from relayctl.cli.fleet import place_of
    from relayctl.host.clock import SystemClock
    from relayctl.render import logs as render

    desk = Desk(context)
    form = desk.format({"text": str, "json": str, "jsonl": str})
    if follow and (form == "json" or desk.writes_files):
        raise UsageError("--follow prints as it goes, not into one document", help="--format jsonl is for programs")
    name, asked = _asked(target)
    with api.logs(place_of(desk.settings), SystemClock()) as store:
        runs = asked(desk, store, follow)
    if follow and len(runs) > 1:
        raise UsageError(f"{target} is {len(runs)} runs; --follow takes one", help=f"such as {runs[-1].target}")
    if follow and runs:
        runs = [_published(desk, runs[0])]
        if not runs[0].is_over:
            _follow(desk, form, runs[0], attempt)
            return
    _check_attempt(runs, attempt)
    now = desk.now()
    nothing = f"{name} has not run yet, or nothing is on record of it\n"
    desk.deliver({
        "text": lambda: harmless(render.text(runs, now, width=desk.look.width, attempt=attempt) or nothing),
        "json": lambda: to_json(render.document(runs, now, name=name, attempt=attempt)),
        "jsonl": lambda: render.stream(runs, now, attempt=attempt),
    })  # fmt: skip


def _asked(target: str) -> tuple[str, Callable[[Desk, Logs, bool], list[RunLog]]]:
    """The name in a target, and how to find the runs that it means; the flag means one that waits to begin, too."""
    from relayctl.cli.tree import split_target
    from relayctl.cli.when import parse_firing

    name, at_sign, when = target.partition("@")
    app_name, wanted = split_target(name)
    if not wanted:
        raise UsageError(f'not a schedule or handler: "{target}"', help="write APP/SCHEDULE or APP/HANDLER")

    def find(desk: Desk, store: Logs, is_waiting_meant: bool) -> list[RunLog]:
        if not at_sign:
            newest = store.newest(app_name, wanted, is_waiting_meant=is_waiting_meant)
            return [] if newest is None else [newest]
        if _MESSAGE.fullmatch(when):
            return [store.of_message(app_name, wanted, when)]
        return store.of_firings(app_name, wanted, parse_firing(when, desk.now()))

    return name, find


def _check_attempt(runs: list[RunLog], attempt: int | None) -> None:
    kept = sorted({each.attempt for run in runs for each in run.attempts})
    if attempt is None or attempt in kept or not kept:
        return
    numbers = ", ".join(map(str, kept))
    raise UsageError(
        f"no attempt {attempt} of {runs[-1].target} is kept",
        help=f"there {'is' if len(kept) == 1 else 'are'}: {numbers}",
    )


def _published(desk: Desk, run: RunLog) -> RunLog:
    """The run once it is published, or once it is certain that it will not be. Until then it is waited for."""
    from relayctl.render.logs import ending

    if run.message or run.is_over:
        return run
    desk.remark(f"{run.target}: {ending(run, desk.now())}; waiting for it")
    for seen in _looks(desk, run):
        run = seen
        if run.message:
            break
    return run


def _follow(desk: Desk, form: str, run: RunLog, attempt: int | None) -> None:
    """Print what is new until the run is over. A broker that goes away meanwhile is waited for."""
    from relayctl.core.runlog import Follower

    follower = Follower(attempt)
    _tell_head(desk, form, run)
    _tell_news(desk, form, run, follower)
    for seen in _looks(desk, run):
        run = seen
        _tell_news(desk, form, run, follower)
    _tell_end(desk, form, run)


def _looks(desk: Desk, run: RunLog) -> Iterator[RunLog]:
    """The run as it is about twice a second, the last time when it is over."""
    from relayctl import api
    from relayctl.cli.fleet import place_of
    from relayctl.errors import BrokerUnavailable, NoBroker
    from relayctl.host.clock import SystemClock

    clock, never = SystemClock(), threading.Event()
    is_lost = False
    while not run.is_over:
        try:
            with api.logs(place_of(desk.settings), clock) as store:
                while not run.is_over:
                    clock.wait(never, _LOOK_EVERY_S)
                    run = store.again(run)
                    is_lost = False
                    yield run
        except (BrokerUnavailable, NoBroker) as error:
            if not is_lost:
                desk.remark(f"{error.message}; waiting for it")
            is_lost = True
            clock.wait(never, _LOOK_EVERY_S)


def _tell_head(desk: Desk, form: str, run: RunLog) -> None:
    from relayctl.cli.exits import harmless
    from relayctl.render import logs as render

    if form == "jsonl":
        desk.tell(render.stream_head(run, desk.now()), is_json=True)
    else:
        desk.tell(harmless(render.head(run, desk.now(), width=desk.look.width)))


def _tell_news(desk: Desk, form: str, run: RunLog, follower: Follower) -> None:
    from relayctl.cli.exits import harmless
    from relayctl.render import logs as render

    found = follower.news(run)
    if form == "jsonl":
        desk.tell(render.stream_news(run, found), is_json=True)
    else:
        desk.tell(harmless(render.news(found)))


def _tell_end(desk: Desk, form: str, run: RunLog) -> None:
    from relayctl.cli.exits import harmless
    from relayctl.render import logs as render

    if form == "jsonl":
        desk.tell(render.stream_end(run, desk.now()), is_json=True)
    else:
        desk.tell(harmless(render.tail(run, desk.now(), width=desk.look.width)))
