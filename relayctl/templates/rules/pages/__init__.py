"""What the page of each rule says beyond its summary: why it matters, and an example of each side that tests run.

The texts are in the TOML files beside this one, by family; nothing but `relayctl rule` and the tests reads them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from importlib import resources
from typing import Any

APP = "sample"
"""The app whose template an example is, where it does not name files of its own."""
_HEAD = """# yaml-language-server: $schema=../../schemas/template.schema.json
runtime: python
"""
_SERVICE = "services:\n  - name: web\n    command: [./serve]\n"
_LINK = "-> "


class Form(Enum):
    """What the text of an example is."""

    SCHEDULE = "schedule"  # keys of one schedule
    PART = "part"  # keys of a template that has its runtime and a service besides
    WHOLE = "whole"  # a template as it stands
    TREE = "tree"  # files alone, by their paths below the apps directory
    CONSOLE = "console"  # commands, for what no file shows


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One side of a page. `shown` is for readers; `files` are by paths below the apps directory, a link as `-> to`."""

    shown: str
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePage:
    """One page. `token` is what the caret of the bad example stands under; `says` and `help` are what is said of it.

    `keep` tells how to live with it.
    """

    code: str
    why: str
    bad: Example
    good: Example
    form: Form
    token: str = ""
    says: str = ""
    help: str = ""
    keep: str = ""


def link_target(content: str) -> str | None:
    """Where a file of an example leads, if it is a link."""
    return content.removeprefix(_LINK) if content.startswith(_LINK) else None


@lru_cache(maxsize=1)
def pages() -> dict[str, RulePage]:
    """Every page by its code, in order."""
    found: dict[str, RulePage] = {}
    for entry in sorted(resources.files(__name__).iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".toml"):
            texts = tomllib.loads(entry.read_text(encoding="utf-8"))
            found |= {code: _page(code, said) for code, said in texts.items()}
    return found


def _page(code: str, said: Mapping[str, Any]) -> RulePage:
    form = Form(said.get("form", "schedule"))
    return RulePage(
        code=code,
        why=" ".join(said["why"].split()),
        bad=_example(form, said, "bad"),
        good=_example(form, said, "good"),
        form=form,
        token=said.get("token", ""),
        says=said.get("says", ""),
        help=said.get("help", ""),
        keep=" ".join(said.get("keep", "").split()),
    )


def _example(form: Form, said: Mapping[str, Any], side: str) -> Example:
    text = said.get(side, "").removeprefix("\n")
    beside = {**said.get("files", {}), **said.get(f"{side}_files", {})}
    if form is Form.CONSOLE:
        return Example(shown=text)
    if form is Form.TREE:
        return Example(shown=_listed(beside), files=beside)
    shown = _scheduled(text) if form is Form.SCHEDULE else text
    template = shown
    if form is not Form.WHOLE:
        template = _HEAD + ("" if "\nservices:" in f"\n{shown}" else _SERVICE) + shown
    files = {f"{APP}/template.yaml": template, f"{APP}/jobs.py": "def run(event): ...\n"}
    files |= {f"{APP}/{path}": content for path, content in beside.items()}
    return Example(shown="\n\n".join(part for part in (shown.rstrip("\n"), _listed(beside)) if part), files=files)


def _scheduled(text: str) -> str:
    """The keys as an item of `schedules`, with a name and a handler where they have none."""
    lines = text.rstrip("\n").split("\n")
    for key, value in (("handler", "jobs.run"), ("name", "nightly")):
        if not any(line.startswith(f"{key}:") for line in lines):
            lines.insert(0, f"{key}: {value}")
    return "schedules:\n" + "".join(f"  {'- ' if at == 0 else '  '}{line}\n" for at, line in enumerate(lines))


def _listed(files: Mapping[str, str]) -> str:
    parts = []
    for path, content in files.items():
        target = link_target(content)
        body = [f"# {path}" if target is None else f"# {path}, a link to {target}"]
        parts.append("\n".join([*body, *([] if target is not None else content.rstrip("\n").split("\n"))]))
    return "\n\n".join(parts)
