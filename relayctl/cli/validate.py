"""`relayctl validate`: lint templates offline. No app code is run, no broker is asked, nothing is fetched."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relayctl.cli.findings import FailOn
from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from datetime import timedelta

    from relayctl.cli.desk import Desk
    from relayctl.cli.lint import Linted, Selection, Task
    from relayctl.cli.mend import Change

app = verb_app()

_Codes = Annotated[str | None, typer.Option(metavar="CODES", help="these rules only: RLY2,RLY301")]
_NotCodes = Annotated[str | None, typer.Option(metavar="CODES", help="not these rules")]
_Place = Annotated[Path | None, typer.Option(metavar="PATH", help="the place that stdin stands for")]
_Paths = Annotated[list[Path] | None, typer.Argument(metavar="[PATH…|-]", help="trees, apps or templates; - is stdin")]
_Horizon = Annotated[str, typer.Option(metavar="DURATION", help="how far ahead clock changes are looked for")]
_Start = Annotated[str | None, typer.Option("--from", metavar="TIME", help="reckon dates from TIME")]


def _flag(name: str, words: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(name, help=words)
    return option


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repair:
    """What is to be done about findings besides showing them."""

    fix: bool
    diff: bool
    add_ignores: bool
    unsafe: bool

    @property
    def is_wanted(self) -> bool:
        return self.fix or self.diff or self.add_ignores


@app.command()
def validate(
    context: typer.Context,
    paths: _Paths = None,
    stdin_filename: _Place = None,
    select: _Codes = None,
    ignore: _NotCodes = None,
    strict: Annotated[bool, _flag("--strict", "remarks as well")] = False,
    fail_on: Annotated[FailOn, typer.Option(help="what ends with exit code 1")] = FailOn.ERROR,
    exit_zero: Annotated[bool, _flag("--exit-zero", "end with exit code 0 whatever is found")] = False,
    fix: Annotated[bool, _flag("--fix", "put in what is safe to fix")] = False,
    unsafe_fixes: Annotated[bool, _flag("--unsafe-fixes", "fix what changes the meaning as well")] = False,
    diff: Annotated[bool, _flag("--diff", "show what --fix would change, and change nothing")] = False,
    exit_non_zero_on_fix: Annotated[
        bool, _flag("--exit-non-zero-on-fix", "end with exit code 1 where something was fixed")
    ] = False,
    add_ignores: Annotated[bool, _flag("--add-ignores", "write comments that silence what is found")] = False,
    no_ignores: Annotated[bool, _flag("--no-ignores", "report what comments silence as well")] = False,
    force_exclude: Annotated[
        bool, _flag("--force-exclude", "skip hidden and dependency directories even where named")
    ] = False,
    tz_horizon: _Horizon = "370d",
    list_files: Annotated[bool, _flag("--list-files", "list the templates and look no further")] = False,
    statistics: Annotated[bool, _flag("--statistics", "count the findings by rule")] = False,
    watch: Annotated[bool, _flag("--watch", "look again whenever something changes")] = False,
    start: _Start = None,
) -> None:
    """Lint templates, offline.

    Exit codes: 0 nothing wrong, 1 findings, 2 usage, 3 failure, 9 no templates found.
    """
    from relayctl.cli import findings
    from relayctl.cli.desk import Desk
    from relayctl.cli.lint import lint, selection, taken

    desk, began, named = Desk(context), time.perf_counter(), paths or []
    chosen = selection(select, ignore, is_strict=strict)
    repair = _Repair(fix=fix, diff=diff, add_ignores=add_ignores, unsafe=unsafe_fixes)
    _check(named, repair, is_listing=list_files or statistics, is_watching=watch, on_fix=exit_non_zero_on_fix)
    task = _task(desk, named, stdin_filename, start, _days(tz_horizon), with_ignores=not no_ignores, skip=force_exclude)
    if watch:
        from relayctl.cli.lintwatch import keep_looking

        keep_looking(desk, task, lambda seen, took_s: findings.deliver(desk, taken(seen, chosen), took_s))
    # Many small values live until the end of this process: to look for cycles between them only costs time.
    gc.disable()
    done: list[Change] = []
    linted = lint(task, {} if repair.is_wanted else None)
    if repair.is_wanted:
        linted, done = _repaired(desk, task, linted, chosen, repair)
    linted = taken(linted, chosen)
    if list_files:
        findings.list_files(desk, linted)
        return
    if statistics:
        findings.count(desk, linted)
    else:
        _hand_over(desk, linted, done, repair, time.perf_counter() - began)
    is_fixed = exit_non_zero_on_fix and any(change.is_one for change in done)
    findings.end(linted, FailOn.NEVER if exit_zero else fail_on, is_fixed=is_fixed)


def _hand_over(desk: Desk, linted: Linted, done: list[Change], repair: _Repair, took_s: float) -> None:
    from relayctl.cli import findings

    if repair.diff:
        findings.show_differences(desk, done)
    elif repair.is_wanted and linted.texts:
        findings.hand_back(desk, linted, done)
    else:
        findings.deliver(desk, linted, took_s, done if repair.is_wanted else None)


def _task(
    desk: Desk,
    paths: list[Path],
    stdin_filename: Path | None,
    start: str | None,
    horizon: timedelta,
    *,
    with_ignores: bool,
    skip: bool,
) -> Task:
    import sys

    from relayctl.cli.lint import STDIN, Task
    from relayctl.templates.rules.engine import Manner

    return Task(
        paths=paths,
        default=desk.settings.apps,
        now=desk.now(start),
        stdin=sys.stdin.buffer.read() if STDIN in paths else b"",
        stdin_filename=stdin_filename,
        manner=Manner(tz_horizon=horizon, with_ignores=with_ignores),
        forces_exclude=skip,
    )


def _check(paths: list[Path], repair: _Repair, *, is_listing: bool, is_watching: bool, on_fix: bool) -> None:
    """Flags that say nothing together are refused, not guessed at."""
    from relayctl.cli.lint import STDIN
    from relayctl.errors import UsageError

    is_stdin = STDIN in paths
    for is_wrong, message, way_out in (
        (
            repair.unsafe and not (repair.fix or repair.diff),
            "--unsafe-fixes alone fixes nothing",
            "add --fix or --diff",
        ),
        (on_fix and not repair.is_wanted, "--exit-non-zero-on-fix without a fix", "add --fix or --diff"),
        (repair.add_ignores and (repair.fix or repair.diff), "--add-ignores beside a fix", "fix first, ignore then"),
        (is_listing and repair.is_wanted, "a fix beside a list or count", "leave one of them out"),
        (is_watching and (repair.is_wanted or is_listing or is_stdin), "--watch only shows findings", "leave it out"),
        (is_stdin and len(paths) > 1 and repair.is_wanted, "a fix of stdin and of files", "fix one after the other"),
    ):
        if is_wrong:
            raise UsageError(message, help=way_out)


def _days(text: str) -> timedelta:
    from datetime import timedelta

    from relayctl.core.duration import DurationError, parse_duration
    from relayctl.errors import UsageError

    try:
        found = parse_duration(text)
    except DurationError as error:
        raise UsageError(f"--tz-horizon: {error.message}", help=error.help) from None
    if not timedelta(0) < found <= timedelta(days=3660):
        raise UsageError(f"--tz-horizon: {text} is not between 1s and 3660d", help="write 370d for a year's changes")
    return found


def _repaired(
    desk: Desk, task: Task, linted: Linted, chosen: Selection, repair: _Repair
) -> tuple[Linted, list[Change]]:
    """What is left after the repair, and what was done; where it is only shown, all is left."""
    from relayctl.cli import mend
    from relayctl.core.problem import Problem

    def wants(problem: Problem) -> bool:
        if repair.add_ignores:
            return chosen.takes(problem)
        return chosen.takes(problem) and problem.fix is not None and (problem.fix.is_safe or repair.unsafe)

    done = mend.changes(linted, task, wants, by_ignores=repair.add_ignores)
    if repair.diff:
        desk.remark(*(mend.told(done, "would fix") or ["nothing to fix"]))
        return linted, done
    mend.write(done)
    if any(change.is_one for change in done):
        linted = mend.look_again(task, linted, done)
    desk.remark(*(mend.told_of_comments(done) if repair.add_ignores else mend.told(done, "fixed")))
    return linted, done
