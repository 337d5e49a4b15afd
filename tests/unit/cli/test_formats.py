"""What a help page says of `--format` is what its command offers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from relayctl.cli import app as cli
from relayctl.cli.options import FORMATS, USUAL_FORMATS

COMMANDS = {
    "init": ("init", "other"),
    "validate": ("validate",),
    "rule": ("rule", "--all"),
    "inspect": ("inspect", "--offline"),
    "explain": ("explain", "@daily"),
    "simulate": ("simulate",),
    "plan": ("plan",),
    "apply": ("apply", "--yes"),
    "rollback": ("rollback", "1", "--yes"),
    "invoke": ("invoke", "hello/every-minute", "--local"),
    "secret": ("secret", "ls"),
    "logs": ("logs", "app/name"),
    "schema": ("schema",),
    "config": ("config", "show"),
    "completion": ("completion", "bash"),
    "version": ("version",),
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["init", "--no-input", "-q"]) == 0
    capsys.readouterr()
    return tmp_path


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize("verb", COMMANDS)
def test_the_help_page_names_the_formats_of_its_command(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*COMMANDS[verb], "--format", "none-such"]) == 2
    message = capsys.readouterr().err
    listed = re.search(r"there (?:is only|are) ([a-z, ]+)", message)
    assert listed is not None, message
    assert tuple(listed[1].split(", ")) == FORMATS.get(verb, USUAL_FORMATS)


def test_every_unusual_verb_is_tried() -> None:
    assert set(FORMATS) <= set(COMMANDS) <= set(cli.VERBS)
