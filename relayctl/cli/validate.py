"""`relayctl validate`: lint templates offline. No app code is run, no broker is asked, nothing is fetched."""

from __future__ import annotations

import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from relayctl.cli.desk import Desk
    from relayctl.cli.lint import Linted

app = verb_app()


class FailOn(Enum):
    """From which severity on findings end with exit code 1."""

    ERROR = "error"
    WARNING = "warning"
    NEVER = "never"


@app.command()
def validate(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="[PATH…|-]", help="trees, apps or templates; - is stdin")
    ] = None,
    stdin_filename: Annotated[Path | None, typer.Option(metavar="PATH", help="the place that stdin stands for")] = None,
    select: Annotated[str | None, typer.Option(metavar="CODES", help="these rules only: RLY2,RLY301")] = None,
    ignore: Annotated[str | None, typer.Option(metavar="CODES", help="not these rules")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="remarks as well")] = False,
    fail_on: Annotated[FailOn, typer.Option(help="what ends with exit code 1")] = FailOn.ERROR,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="end with exit code 0 whatever is found")] = False,
    list_files: Annotated[bool, typer.Option("--list-files", help="list the templates and look no further")] = False,
    statistics: Annotated[bool, typer.Option("--statistics", help="count the findings by rule")] = False,
    start: Annotated[str | None, typer.Option("--from", metavar="TIME", help="reckon dates from TIME")] = None,
) -> None:
    """Lint templates, offline.

    Exit codes: 0 nothing wrong, 1 findings, 2 usage, 3 failure, 9 no templates found.
    """
    from relayctl.cli.desk import Desk
    from relayctl.cli.lint import lint, selection, taken

    desk, began = Desk(context), time.perf_counter()
    chosen = selection(select, ignore, is_strict=strict)
    linted = taken(lint(paths or [], desk.settings.apps, stdin_filename=stdin_filename, now=desk.now(start)), chosen)
    if list_files:
        _list_files(desk, linted)
        return
    if statistics:
        _count(desk, linted)
    else:
        _deliver(desk, linted, time.perf_counter() - began)
    _end(linted, FailOn.NEVER if exit_zero else fail_on)


def _deliver(desk: Desk, linted: Linted, took_s: float) -> None:
    from relayctl.cli.lint import sources_of
    from relayctl.render import problems as render
    from relayctl.render.annotations import github
    from relayctl.render.paint import painted

    look, problems = desk.look, linted.problems
    counts = render.Counts(files=len(linted.files), schedules=linted.schedules, took_s=took_s)
    desk.deliver({
        "text": lambda: painted(
            render.text(problems, sources_of(linted, problems), look.width, look.is_unicode, counts=counts),
            is_colored=look.is_colored,
        ),
        "concise": lambda: render.concise(problems),
        "json": lambda: render.as_json(problems, counts=counts),
        "github": lambda: github(problems),
    })  # fmt: skip


def _list_files(desk: Desk, linted: Linted) -> None:
    from relayctl.cli.desk import to_json

    desk.deliver({
        "text": lambda: "".join(f"{file}\n" for file in linted.files),
        "json": lambda: to_json({"v": 1, "files": linted.files}),
    })  # fmt: skip


def _count(desk: Desk, linted: Linted) -> None:
    from collections import Counter

    from relayctl.cli.desk import to_json
    from relayctl.render.table import columns
    from relayctl.templates.rules.registry import BY_CODE

    counted = sorted(Counter(problem.code for problem in linted.problems).items(), key=lambda item: (-item[1], item[0]))
    rows = [(str(count), code, BY_CODE[code].name) for code, count in counted]
    desk.deliver({
        "text": lambda: columns(rows),
        "json": lambda: to_json({"v": 1, "statistics": dict(counted)}),
    })  # fmt: skip


def _end(linted: Linted, fail_on: FailOn) -> None:
    from relayctl.cli.exits import Code, Ended
    from relayctl.core.problem import Severity

    failing = {
        FailOn.ERROR: {Severity.ERROR},
        FailOn.WARNING: {Severity.ERROR, Severity.WARNING},
        FailOn.NEVER: set(),
    }[fail_on]
    if any(problem.severity in failing for problem in linted.problems):
        raise Ended(Code.FINDINGS)
