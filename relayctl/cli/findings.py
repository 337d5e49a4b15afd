"""How `validate` hands over what it found: in every format, as a list, a count or a diff, and as an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relayctl.cli.desk import Desk
    from relayctl.cli.lint import Linted
    from relayctl.cli.mend import Change
    from relayctl.core.problem import Problem
    from relayctl.render.problems import Counts


class FailOn(Enum):
    """From which severity on findings end with exit code 1."""

    ERROR = "error"
    WARNING = "warning"
    NEVER = "never"


def deliver(desk: Desk, linted: Linted, took_s: float, done: Sequence[Change] | None = None) -> None:
    """The findings in the format asked for. `done`: what was fixed before, where that was asked for."""
    from relayctl.cli.lint import from_here, sources_of
    from relayctl.render import problems as render
    from relayctl.render.annotations import github
    from relayctl.render.paint import painted

    look, problems = desk.look, linted.problems
    counts = render.Counts(files=len(linted.files), schedules=linted.schedules, took_s=took_s)
    fixed = None if done is None else [problem for change in done for problem in change.mended.fixed]
    desk.deliver({
        "text": lambda: painted(
            render.text(problems, sources_of(linted, problems), look.width, look.is_unicode, counts=counts),
            is_colored=look.is_colored,
        ),
        "concise": lambda: render.concise(problems),
        "json": lambda: render.as_json(problems, counts=counts, fixed=fixed),
        "sarif": lambda: _sarif(from_here(problems)),
        "github": lambda: github(from_here(problems)),
        "gitlab": lambda: _gitlab(from_here(problems)),
        "junit": lambda: _junit(linted, from_here(problems)),
        "markdown": lambda: _markdown(from_here(problems), counts),
    })  # fmt: skip


def _sarif(problems: list[Problem]) -> str:
    from relayctl import __version__
    from relayctl.render.sarif import RuleText, sarif
    from relayctl.templates.rules.registry import BY_CODE

    rules = {
        code: RuleText(name=rule.name, summary=rule.summary, severity=rule.severity) for code, rule in BY_CODE.items()
    }
    return sarif(problems, rules, __version__)


def _gitlab(problems: list[Problem]) -> str:
    from relayctl.render.ci import gitlab

    return gitlab(problems)


def _junit(linted: Linted, problems: list[Problem]) -> str:
    from relayctl.cli.lint import path_from_here
    from relayctl.render.ci import junit

    return junit(problems, [path_from_here(file) for file in linted.files])


def _markdown(problems: list[Problem], counts: Counts) -> str:
    from relayctl.render import problems as render
    from relayctl.render.ci import markdown

    return markdown(problems, render.summary(problems, counts))


def list_files(desk: Desk, linted: Linted) -> None:
    """The templates that were looked at."""
    from relayctl.cli.desk import to_json
    from relayctl.cli.exits import harmless

    desk.deliver({
        "text": lambda: harmless("".join(f"{file}\n" for file in linted.files)),
        "json": lambda: to_json({"v": 1, "files": linted.files}),
    })  # fmt: skip


def count(desk: Desk, linted: Linted) -> None:
    """How often each rule was broken."""
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


def show_differences(desk: Desk, done: Sequence[Change]) -> None:
    """What fixes would change."""
    from relayctl.cli.mend import differences

    desk.deliver({"text": lambda: differences(done)})


def hand_back(desk: Desk, linted: Linted, done: Sequence[Change]) -> None:
    """The mended text of stdin, to the byte; what is left to say about it goes to stderr."""
    import sys

    from relayctl.render.problems import concise

    desk.complain(*concise(linted.problems).splitlines())
    file, text = next(iter(linted.texts.items()))
    data = next((change.mended.data for change in done if change.file == file), text)
    if desk.writes_files:
        desk.deliver({"text": lambda: data.decode("utf-8", "replace")})
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def end(linted: Linted, fail_on: FailOn, *, is_fixed: bool = False) -> None:
    """The exit code, where it is not 0."""
    from relayctl.cli.exits import Code, Ended
    from relayctl.core.problem import Severity

    failing = {
        FailOn.ERROR: {Severity.ERROR},
        FailOn.WARNING: {Severity.ERROR, Severity.WARNING},
        FailOn.NEVER: set(),
    }[fail_on]
    if is_fixed or any(problem.severity in failing for problem in linted.problems):
        raise Ended(Code.FINDINGS)
