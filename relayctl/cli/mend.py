"""What `validate --fix` does to the files of a lint: mends each, writes it or shows the difference."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.cli.lint import Linted, Task, lint
from relayctl.errors import FileFailure, os_reason
from relayctl.templates.find import TEMPLATE

if TYPE_CHECKING:
    from relayctl.core.problem import Problem
    from relayctl.templates.fixes.rounds import Mended, Refusal
    from relayctl.templates.load import Loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One file before and after; `path` is None for text that came by stdin."""

    file: str
    path: Path | None
    old: bytes
    mended: Mended
    loaded: Loaded | None = None
    """What a look at it would find now, where that is known."""

    @property
    def is_one(self) -> bool:
        """Whether anything is different."""
        return self.mended.data != self.old


def changes(linted: Linted, task: Task, wants: Callable[[Problem], bool], *, by_ignores: bool = False) -> list[Change]:
    """What fixes, or comments that silence, would make of every file with a problem that `wants` takes."""
    from relayctl.templates.fixes.app import bench_of

    found = []
    touched = {problem.place.file for problem in linted.problems if wants(problem)}
    seen: set[str] = set()
    known = {loaded.directory: loaded for apps in linted.trees.values() for loaded in apps.values()}
    for file, home in linted.homes.items():
        real = os.path.realpath(file)
        if file not in touched or real in seen:
            continue
        # A template that a link leads to is one file under two names.
        seen.add(real)
        text = linted.texts.get(file)
        bench = bench_of(home, file, task.now, task.manner)
        old = text if text is not None else _read(Path(file))
        seen_so = known.get(home) if home is not None else None
        try:
            mended = bench.silence(old, wants) if by_ignores else bench.mend(old, wants, seen_so)
        except UnicodeDecodeError:
            continue
        loaded = bench.loaded(home, mended) if home is not None and text is None and not by_ignores else None
        path = None if text is not None else Path(file)
        found.append(Change(file=file, path=path, old=old, mended=mended, loaded=loaded))
    return found


def write(found: list[Change]) -> None:
    """Put every changed file in its place."""
    from relayctl.templates.fixes.writing import overwrite

    for change in found:
        if change.is_one and change.path is not None:
            overwrite(change.path, change.old, change.mended.data)


def look_again(task: Task, linted: Linted, found: list[Change]) -> Linted:
    """The same look at what is there now; only what was changed and not judged since is read."""
    text = next((change.mended.data for change in found if change.path is None), task.stdin)
    changed = {os.path.realpath(change.file) for change in found if change.is_one}
    known = {
        root: {
            name: loaded
            for name, loaded in apps.items()
            if os.path.realpath(loaded.directory / TEMPLATE) not in changed
        }
        for root, apps in linted.trees.items()
    }
    settled = {change.file: change.loaded for change in found if change.is_one and change.loaded is not None}
    return lint(replace(task, stdin=text, settled=settled), known)


def differences(found: Sequence[Change]) -> str:
    """The unified diff of all of them."""
    from relayctl.templates.fixes.difference import difference

    return "".join(difference(change.file, change.old, change.mended.data) for change in found if change.is_one)


def told(found: Sequence[Change], verb: str) -> list[str]:
    """What was done, and which fixes were taken back."""
    from relayctl.core.counting import counted

    fixed = [problem for change in found for problem in change.mended.fixed]
    files = sum(change.is_one for change in found)
    lines = []
    if fixed:
        codes = sorted({problem.code for problem in fixed})
        lines.append(f"{verb} {counted(len(fixed), 'problem')} in {counted(files, 'file')}: {', '.join(codes)}")
    for change in found:
        lines += [_taken_back(refusal) for refusal in change.mended.refused]
    return lines


def told_of_comments(found: Sequence[Change]) -> list[str]:
    """What comments were written. What could not be silenced is still there to be read."""
    from relayctl.core.counting import counted

    count = sum(len(change.mended.fixed) for change in found)
    if not count:
        return ["nothing here can be silenced by a comment"]
    files = sum(change.is_one for change in found)
    return [f"wrote {counted(count, 'comment')} in {counted(files, 'file')}; put the reason behind each"]


def _taken_back(refusal: Refusal) -> str:
    place = refusal.problem.place
    return f"{place.file}:{place.line}:{place.column}: {refusal.problem.code} was not fixed: {refusal.reason}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileFailure(f"{path}: cannot be read: {os_reason(error)}") from None
