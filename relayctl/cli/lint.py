"""What `validate` looks at: paths become apps, apps become problems, problems are selected. It prints nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from relayctl.core.names import AppName
from relayctl.core.problem import Problem, Severity
from relayctl.errors import NoTemplates, UsageError
from relayctl.templates.find import TEMPLATE, is_ignored_directory, wrong_file_name
from relayctl.templates.load import Loaded, check_text, load_app, load_tree
from relayctl.templates.rules.engine import USUAL, Manner

STDIN = Path("-")


@dataclass(slots=True, kw_only=True)
class Linted:
    """What was found. `files` are the templates looked at, as they were named; `texts` holds what came by stdin."""

    problems: list[Problem] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    schedules: int = 0
    texts: dict[str, bytes] = field(default_factory=dict)
    homes: dict[str, Path | None] = field(default_factory=dict)
    """By file, the app directory that it is the template of; None where there is none."""
    trees: dict[Path, dict[str, Loaded]] = field(default_factory=dict)
    """By root, the apps of the trees that were looked at; kept for a further look alone."""

    def add(self, loaded: Loaded) -> None:
        """Take in one app, once."""
        file = (loaded.directory / TEMPLATE).as_posix()
        if file not in self.homes:
            self.homes[file] = loaded.directory
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What to look at, and how. `stdin` is what came by it, where a path is `-`."""

    paths: Sequence[Path]
    default: Path
    now: datetime
    stdin: bytes = b""
    stdin_filename: Path | None = None
    manner: Manner = USUAL
    forces_exclude: bool = False
    settled: Mapping[str, Loaded] = field(default_factory=dict)
    """By file, apps that were judged as they are now, and need no further look."""


def lint(task: Task, known: Mapping[Path, Mapping[str, Loaded]] | None = None) -> Linted:
    """Look at every path: a tree, an app, a template, or `-` for text on stdin. Without any, at the `default` tree.

    Apps in `known`, by the root of their tree, are taken as they were read; with it the answer can serve as the next.
    """
    found = Linted()
    paths = [path for path in task.paths if not (task.forces_exclude and is_excluded(path))]
    if not task.paths:
        _lint_tree(found, task.default, task, known)
    elif not paths:
        return found
    for path in paths:
        if path == STDIN:
            _lint_stdin(found, task)
        elif is_tree(path):
            _lint_tree(found, path, task, known)
        else:
            _lint_app(found, path, task)
    if not found.files:
        shown = ", ".join(str(path) for path in paths or [task.default])
        hints = [f"{problem.place.file}: {problem.message}" for problem in found.problems[:3]]
        hints.append("name the apps directory, or make a first app: relayctl init")
        raise NoTemplates(f"no {TEMPLATE} in {shown}", help="\n".join(hints))
    found.problems.sort(key=lambda problem: problem.sort_key)
    return found


def is_tree(path: Path) -> bool:
    """Whether a path is a directory of apps, and not an app or a template."""
    return path.is_dir() and not os.path.lexists(path / TEMPLATE)


def is_excluded(path: Path) -> bool:
    """Whether a look at the tree would pass over this path: it lies in a hidden, dependency or tool directory."""
    shown = Path(os.path.relpath(path)) if path.is_absolute() else path
    folders = shown.parts if path.is_dir() else shown.parts[:-1]
    return any(is_ignored_directory(part) for part in folders if part not in {".", ".."})


def selection(select: str | None, ignore: str | None, *, is_strict: bool) -> Selection:
    """From the flags' texts: codes or their beginnings, joined by commas."""
    return Selection(select=_codes("--select", select), ignore=_codes("--ignore", ignore), is_strict=is_strict)


def _lint_tree(found: Linted, root: Path, task: Task, known: Mapping[Path, Mapping[str, Loaded]] | None) -> None:
    as_read = dict(known.get(root, {})) if known is not None else {}
    as_read |= {loaded.name: loaded for loaded in task.settled.values() if loaded.directory.parent == root}
    tree = load_tree(root, now=task.now, with_digest=False, with_apps=False, manner=task.manner, known=as_read)
    if tree.trouble is not None:
        raise NoTemplates(f"{root}: {tree.trouble}", help="name the apps directory, or make a first app: relayctl init")
    if known is not None:
        found.trees[root] = {loaded.name: loaded for loaded in tree.apps}
    for loaded in tree.apps:
        found.add(loaded)
    told = {id(problem) for loaded in tree.apps for problem in loaded.problems}
    others = [problem for problem in tree.problems if id(problem) not in told]
    found.problems += others
    found.files += sorted({problem.place.file for problem in others if problem.is_error} - set(found.files))


def _lint_app(found: Linted, path: Path, task: Task) -> None:
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
    directory = _named(directory)
    loaded = task.settled.get((directory / TEMPLATE).as_posix())
    if loaded is None:
        loaded = load_app(directory, root=directory.parent, now=task.now, with_digest=False, manner=task.manner)
    found.add(loaded)


def _named(directory: Path) -> Path:
    """The directory with its name: an app's name is its directory's, which a relative path may leave out."""
    return Path(os.path.abspath(directory)) if directory.name in {"", ".."} else directory  # noqa: PTH100


def _lint_stdin(found: Linted, task: Task) -> None:
    filename = task.stdin_filename
    shown = filename if filename is not None else Path("stdin") / TEMPLATE
    directory = filename.parent if filename is not None and filename.parent.is_dir() else None
    directory = _named(directory) if directory is not None else None
    name = AppName(directory.name if directory is not None else shown.parent.name or "stdin")
    file = shown.as_posix()
    _, problems, schedules = check_text(task.stdin, file, name, directory, task.now, manner=task.manner)
    found.problems += problems
    found.files.append(file)
    found.schedules += schedules
    found.texts[file] = task.stdin
    found.homes[file] = directory


def from_here(problems: Iterable[Problem]) -> list[Problem]:
    """The same, with files named from the working directory on where they lie in it: for programs of a checkout."""
    return [
        replace(problem, place=replace(problem.place, file=path_from_here(problem.place.file))) for problem in problems
    ]


def path_from_here(file: str) -> str:
    """A path from the working directory on, with forward slashes; a whole one where it does not lie in it."""
    here = Path.cwd()
    whole = Path(os.path.abspath(file))  # noqa: PTH100 - links in it are the user's own names
    return whole.relative_to(here).as_posix() if whole.is_relative_to(here) else whole.as_posix()


def sources_of(linted: Linted, problems: Iterable[Problem]) -> dict[str, str]:
    """The text of every file that a problem is in, for excerpts; one that cannot be read has none."""
    texts = {file: data.decode("utf-8", "replace") for file, data in linted.texts.items()}
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

    wanted = tuple(_code(part.strip().upper()) for part in text.split(",") if part.strip())
    for prefix in wanted:
        if not any(rule.code.startswith(prefix) for rule in RULES):
            error = unknown("rule", prefix, [rule.code for rule in RULES])
            raise UsageError(f"{flag}: {error.message}", help=error.help)
    return wanted


def _code(text: str) -> str:
    """A code or the beginning of one; its letters may be left out, as in 207."""
    return f"RLY{text}" if text.isdigit() else text


def taken(linted: Linted, chosen: Selection) -> Linted:
    """The same, with the problems that count."""
    return replace(linted, problems=[problem for problem in linted.problems if chosen.takes(problem)])
