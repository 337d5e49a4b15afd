"""Command lines in the code of the pages: each names a command that there is, and flags that it takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relayctl.cli import app as cli

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FENCE = re.compile(r"^```[a-z]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINE = re.compile(r"(?:^|[\s/])(?<!SETUSER )relayctl (?P<verb>[a-z]+)(?P<rest>.*)")
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def lines(page: Path) -> Iterator[tuple[str, str]]:
    """Each command line in the code of a page: the command, and what follows."""
    text = page.read_text(encoding="utf-8")
    fenced = [line for block in _FENCE.findall(text) for line in block.splitlines()]
    for line in (*fenced, *_SPAN.findall(_FENCE.sub("", text))):
        for found in _LINE.finditer(line):
            yield found["verb"], re.split(r"[|;&]| {3}", found["rest"])[0]


def leaves(verb: str) -> dict[str, Any]:
    command = cli.root().get_command(None, verb)
    return dict(getattr(command, "commands", {"": command}))


def flags(verb: str, rest: str) -> set[str]:
    """What the command takes; of a group what the named one of its commands does, or any of them."""
    known = leaves(verb)
    named = [known[word] for word in rest.split()[:1] if word in known] or list(known.values())
    return {opt for command in named for param in command.params for opt in (*param.opts, *param.secondary_opts)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_names_commands_and_flags_that_there_are(page: Path) -> None:
    wrong = []
    for verb, rest in lines(page):
        unknown = set(_FLAG.findall(rest)) - flags(verb, rest) - {"--help"} if verb in cli.VERBS else {""}
        wrong += [f"relayctl {verb} {flag}" for flag in sorted(unknown)]
    assert wrong == []


def test_command_lines_are_found_at_all() -> None:
    found = {(verb, flag) for page in PAGES for verb, rest in lines(page) for flag in _FLAG.findall(rest)}
    assert {("validate", "--fix"), ("serve", "--git"), ("trigger", "--wait"), ("status", "--check")} <= found


def anchors(page: Path) -> set[str]:
    """What a link into a page may name: its headings, as GitHub spells them."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_into_a_page_name_a_heading() -> None:
    links = [
        (page, path, anchor)
        for page in PAGES
        for path, anchor in re.findall(r"\]\(([^)#:\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8"))
    ]
    assert len(links) > 5
    assert [
        f"{page.relative_to(ROOT)}: {path}#{anchor}"
        for page, path, anchor in links
        if anchor not in anchors(page.parent / path if path else page)
    ] == []


def test_the_commands_page_names_every_flag_of_its_own() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    shared = {opt for param in leaves("version")[""].params for opt in param.opts}
    lacking = {
        f"{verb} {opt}"
        for verb in cli.VERBS
        for command in leaves(verb).values()
        for param in command.params
        for opt in param.opts
        if opt.startswith("--") and opt not in shared and f"`{opt}" not in page and opt not in _FLAG.findall(page)
    }
    assert lacking == set()
