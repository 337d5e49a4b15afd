"""What `validate` looks at: paths become apps, apps become problems, problems are selected. It prints nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from relayctl.core.names import AppName
from relayctl.core.problem import Problem, Severity
from relayctl.errors import NoTemplates, UsageError
from relayctl.templates.find import TEMPLATE, wrong_file_name
from relayctl.templates.load import Loaded, check_text, load_app, load_tree

STDIN = Path("-")


@dataclass(slots=True, kw_only=True)
class Linted:
    """What was found. `files` are the templates looked at, as they were named; `texts` holds what came by stdin."""

    problems: list[Problem] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    schedules: int = 0
    texts: dict[str, str] = field(default_factory=dict)

    def add(self, loaded: Loaded) -> None:
        """Take in one app, once."""
        file = (loaded.directory / TEMPLATE).as_posix()
        if file not in self.files:
            self.files.append(file)
            self.schedules += loaded.schedules
            self.problems.extend(loaded.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which problems count: by prefixes of their codes, and remarks only when strict."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    is_strict: bool = False

    def takes(self, problem: Problem) -> bool:
        """Whether this problem is reported."""
        if (
            problem.severity is Severity.INFO
            and not self.is_strict
            and not problem.code.startswith(self.select or ("-",))
        ):
            return False
        if problem.code.startswith(self.ignore):
            return False
        return not self.select or problem.code.startswith(self.select)


def lint(paths: Sequence[Path], default: Path, *, stdin_filename: Path | None, now: datetime) -> Linted:
    """Look at every path: a tree, an app, a template, or `-` for text on stdin. Without any, at the `default` tree."""
    found = Linted()
    if not paths:
        _lint_tree(found, default, now)
    for path in paths:
        if path == STDIN:
            _lint_stdin(found, stdin_filename, now)
        elif path.is_dir() and not os.path.lexists(path / TEMPLATE):
            _lint_tree(found, path, now)
        else:
            _lint_app(found, path, now)
    if not found.files:
        shown = ", ".join(str(path) for path in paths or [default])
        hints = [f"{problem.place.file}: {problem.message}" for problem in found.problems[:3]]
        hints.append("name the apps directory, or make a first app: relayctl init")
        raise NoTemplates(f"no {TEMPLATE} in {shown}", help="\n".join(hints))
    found.problems.sort(key=lambda problem: problem.sort_key)
    return found


def selection(select: str | None, ignore: str | None, *, is_strict: bool) -> Selection:
    """From the flags' texts: codes or their beginnings, joined by commas."""
    return Selection(select=_codes("--select", select), ignore=_codes("--ignore", ignore), is_strict=is_strict)


def _lint_tree(found: Linted, root: Path, now: datetime) -> None:
    tree = load_tree(root, now=now, with_digest=False)
    if tree.trouble is not None:
        raise NoTemplates(f"{root}: {tree.trouble}", help="name the apps directory, or make a first app: relayctl init")
    for loaded in tree.apps:
        found.add(loaded)
    known = {id(problem) for loaded in tree.apps for problem in loaded.problems}
    others = [problem for problem in tree.problems if id(problem) not in known]
    found.problems += others
    found.files += sorted({problem.place.file for problem in others if problem.is_error} - set(found.files))


def _lint_app(found: Linted, path: Path, now: datetime) -> None:
    if not os.path.lexists(path):
        raise UsageError(f"{path}: no such file or directory", help="name a tree, an app directory or a template")
    if path.is_dir() and path.name != TEMPLATE:
        directory = path
    elif path.name == TEMPLATE:
        directory = path.parent
    else:
        found.problems.append(wrong_file_name(path))
        found.files.append(path.as_posix())
        return
    if directory.name in {"", ".."}:
        # An app's name is its directory's, which a relative path may leave out.
        directory = Path(os.path.abspath(directory))  # noqa: PTH100
    found.add(load_app(directory, root=directory.parent, now=now, with_digest=False))


def _lint_stdin(found: Linted, filename: Path | None, now: datetime) -> None:
    data = sys.stdin.buffer.read()
    shown = filename if filename is not None else Path("stdin") / TEMPLATE
    directory = filename.parent if filename is not None and filename.parent.is_dir() else None
    if directory is not None and directory.name in {"", ".."}:
        directory = Path(os.path.abspath(directory))  # noqa: PTH100
    name = AppName(directory.name if directory is not None else shown.parent.name or "stdin")
    _, problems, schedules = check_text(data, shown.as_posix(), name, directory, now)
    found.problems += problems
    found.files.append(shown.as_posix())
    found.schedules += schedules
    found.texts[shown.as_posix()] = data.decode("utf-8", "replace")


def sources_of(linted: Linted, problems: Iterable[Problem]) -> dict[str, str]:
    """The text of every file that a problem is in, for excerpts; one that cannot be read has none."""
    texts = dict(linted.texts)
    for file in {problem.place.file for problem in problems} - set(texts):
        path = Path(file)
        try:
            if path.is_file() and path.stat().st_size <= 1 << 20:
                texts[file] = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
    return texts


def _codes(flag: str, text: str | None) -> tuple[str, ...]:
    if not text:
        return ()
    from relayctl.cli.tree import unknown
    from relayctl.templates.rules.registry import RULES

    wanted = tuple(part.strip().upper() for part in text.split(",") if part.strip())
    for prefix in wanted:
        if not any(rule.code.startswith(prefix) for rule in RULES):
            error = unknown("rule", prefix, [rule.code for rule in RULES])
            raise UsageError(f"{flag}: {error.message}", help=error.help)
    return wanted


def taken(linted: Linted, chosen: Selection) -> Linted:
    """The same, with the problems that count."""
    return replace(linted, problems=[problem for problem in linted.problems if chosen.takes(problem)])
