"""Small templates for tests: a good one, parts to break it with, and apps on disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from relayctl.core.model import App
from relayctl.core.names import AppName
from relayctl.core.problem import Problem
from relayctl.templates.load import check_text

NOW = datetime(2026, 9, 29, 10, 15, tzinfo=UTC)
MODELINE = "# yaml-language-server: $schema=../../schemas/template.schema.json\n"
SERVICE = "services:\n  - name: web\n    command: [./serve]\n"
HABITS = frozenset({"RLY504", "RLY506", "RLY508"})
HANDLERS = {"jobs.py": "def run(event):\n    return event\n"}


def schedule(*lines: str, name: str = "nightly") -> str:
    """A template of one schedule; `lines` are further keys of it."""
    more = "".join(f"    {line}\n" for line in lines)
    return f"runtime: python\n{SERVICE}schedules:\n  - name: {name}\n    handler: jobs.run\n{more}"


def checked(
    text: str, *, now: datetime | None = NOW, directory: Path | None = None
) -> tuple[App | None, list[Problem]]:
    """The app of a text and its problems but remarks on habits; without a directory handlers are not looked for."""
    app, problems, _ = check_text(text.encode(), "apps/sample/template.yaml", AppName("sample"), directory, now)
    return app, without_habits(problems)


def without_habits(problems: Iterable[Problem]) -> list[Problem]:
    """All but the remarks that nearly every short template gives."""
    return [problem for problem in problems if problem.code not in HABITS]


def errors(text: str) -> list[str]:
    """The codes of the errors in a text, in order."""
    return [problem.code for problem in checked(text)[1] if problem.is_error]


def write_app(root: Path, name: str, text: str, files: Mapping[str, str] = HANDLERS) -> Path:
    """An app directory with a template and files."""
    directory = root / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "template.yaml").write_text(text, encoding="utf-8")
    for relative, content in files.items():
        path = directory / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return directory
