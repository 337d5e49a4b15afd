"""The command table: each verb has its module, its words and its page."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from relayctl.cli import app as cli
from relayctl.cli.exits import Code
from relayctl.settings import SETTINGS

ROOT = Path(__file__).parent.parent.parent


def _command(verb: str) -> Any:
    return cli.root().get_command(None, verb)


@pytest.mark.parametrize("verb", list(cli.VERBS))
def test_the_help_page_tells_the_first_line_of_the_docstring(verb: str) -> None:
    command = _command(verb)
    assert (command.help or "").splitlines()[0] == cli.VERBS[verb]
    assert (importlib.import_module(cli.module_of(verb)).__doc__ or "").startswith(f"`relayctl {verb}")


@pytest.mark.parametrize("verb", list(cli.VERBS))
def test_every_command_takes_the_shared_options(verb: str) -> None:
    command = _command(verb)
    for leaf in getattr(command, "commands", {"": command}).values():
        options = {opt for param in leaf.params for opt in param.opts}
        shared = {row.flag for row in SETTINGS.values() if row.is_shared}
        assert shared | {"--format", "--output-file", "--json-file", "-q", "-v", "--no-input", "--config"} <= options


def _docs() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("verb", list(cli.VERBS))
def test_every_command_is_documented(verb: str) -> None:
    assert f"relayctl {verb}" in _docs()


@pytest.mark.parametrize("key", list(SETTINGS))
def test_every_setting_is_documented(key: str) -> None:
    assert SETTINGS[key].variable in _docs()


def test_every_exit_code_is_documented() -> None:
    docs = _docs()
    assert [code.value for code in Code if f"| {code.value} |" not in docs] == []


def test_the_settings_table_of_the_docs_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["config", "show", "--format", "markdown"]) == 0
    assert capsys.readouterr().out in _docs()
