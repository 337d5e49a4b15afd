"""The tour of README.md: its files are written, its commands run in order, and what they say is compared with the page.

Numbers, names of machines and days of the week are not: they differ from run to run. `…` stands for anything.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from support.broker import await_fact
from support.console import ROOT, command, inside, plain

if TYPE_CHECKING:
    import pytest

_BLOCK = re.compile(r"^```(console|yaml|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_VARYING = [
    (re.compile(r"unix://\S+(?=,)"), "BROKER"),
    (re.compile(r"\b[\w.]+-[0-9a-f]{8}\b"), "WORKER"),
    (re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b"), "DAY"),
    (re.compile(r"\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b"), "MONTH"),
    (re.compile(r"\bCES?T\b"), "CET"),
    (re.compile(r"\(in [^)]*\)"), "(in SPAN)"),
    (re.compile(r"\b[0-9a-f]{8}\b"), "DIGEST"),
    (re.compile(r"\b\d+(?:\.\d+)?m?s\b"), "TIME"),
    (re.compile(r"\d+"), "0"),
    (re.compile(r" {2,}"), " "),
]


@dataclass(frozen=True)
class Step:
    """One command of the page, and what it says there."""

    line: str
    said: tuple[str, ...]


def blocks() -> Iterator[tuple[str, str]]:
    for found in _BLOCK.finditer((ROOT / "README.md").read_text(encoding="utf-8")):
        yield found[1], found[2]


def steps(block: str) -> Iterator[Step]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, *said = part.splitlines()
        yield Step(line, tuple(said))


def without_variation(text: str) -> str:
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return text


def is_as_said(said: tuple[str, ...], text: str) -> bool:
    """Whether a text is what the page has, line by line."""
    lines = [without_variation(line.rstrip()) for line in said]
    pattern = "".join(r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\n" for line in lines)
    plain_text = "".join(f"{without_variation(line.rstrip())}\n" for line in text.splitlines())
    return re.fullmatch(pattern, plain_text) is not None


def run(line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """What a command line of the page says, with what is piped into it."""
    first, _, second = line.rpartition(" | ")
    given = f"{shlex.split(first)[1]}\n" if first else ""
    program, *arguments = shlex.split(second)
    assert program == "relayctl"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
    answer = inside(capsys, *arguments)
    assert answer.code == (1 if "\n2 errors" in answer.out else 0), line + answer.err + answer.out
    return answer.err + answer.out


@contextmanager
def serving(root: Path, said: tuple[str, ...]) -> Iterator[None]:
    """A worker as the page starts it, from when it has said what it says there."""
    log = root / "serve.log"
    with log.open("wb") as file:
        worker = subprocess.Popen(
            command("serve"), cwd=root, env=plain({"RELAYCTL_LOG_FORMAT": "text"}), stderr=file, start_new_session=True
        )
    try:
        await_fact(lambda: is_as_said(said, log.read_text()), "the worker does not say what the page says", 60)
        yield
    finally:
        worker.send_signal(signal.SIGINT)
        assert worker.wait(60) == 0


def test_the_tour(short_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(short_dir)
    monkeypatch.setenv("COLUMNS", "80")
    wrong, is_run = [], 0
    with contextlib.ExitStack() as stack:
        for language, block in blocks():
            if language != "console":
                if named := re.match(r"# (apps/\S+)\n", block):
                    Path(named[1]).parent.mkdir(parents=True, exist_ok=True)
                    Path(named[1]).write_text(block)
                continue
            for step in steps(block):
                is_run += 1
                if step.line == "relayctl serve":
                    stack.enter_context(serving(short_dir, step.said))
                    continue
                text = run(step.line, capsys, monkeypatch)
                if not is_as_said(step.said, text):
                    wrong.append(f"$ {step.line}\n{text}")
    assert is_run > 15
    assert not wrong, "\n".join(wrong)


def test_a_page_that_says_something_else_is_found() -> None:
    assert is_as_said(("at 10:15", "…", "2 jobs"), "at 9:00\nmore\n3 jobs\n")
    assert not is_as_said(("at 10:15", "2 jobs"), "at 9:00\nmore\n3 jobs\n")
    assert not is_as_said(("2 jobs",), "3 tasks\n")
