"""golden/help: the help page of every command, at 80 columns."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from relayctl.cli import app as cli


def _pages() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [()]
    tree = cli.root()
    for verb in cli.VERBS:
        command = tree.get_command(None, verb)
        found.append((verb,))
        found += [(verb, child) for child in getattr(command, "commands", {})]
    return found


@pytest.mark.parametrize("words", _pages(), ids=lambda words: "-".join(words) or "relayctl")
def test_page(
    words: tuple[str, ...], golden: SnapshotAssertion, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.run([*words, "--help"]) == 0
    page = capsys.readouterr()
    assert page.err == ""
    assert max(map(len, page.out.splitlines())) <= 80
    assert page.out == golden
