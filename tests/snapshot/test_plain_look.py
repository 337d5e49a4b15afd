"""What inspect, explain and simulate print is plain, English and 24-hour, whatever terminal and locale it is printed for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.console import inside, relayctl

ROOT = Path(__file__).parent.parent.parent
AT = ("--from", "2026-09-29T10:15:00Z")
COMMANDS = {
    "inspect": ("inspect", *AT),
    "detail": ("inspect", "billing/nightly-cleanup", *AT),
    "explain": ("explain", "30 14 1 9 1", "--timezone", "America/New_York", *AT),
    "simulate": ("simulate", "--by", "week", *AT),
}
ITALIAN = {"LANG": "it_IT.UTF-8", "LC_ALL": "it_IT.UTF-8", "LANGUAGE": "it"}
PLACES = {
    "no-color": {"NO_COLOR": "1"},
    "dumb": {"TERM": "dumb"},
    "color-terminal": {"TERM": "xterm-256color", "COLORTERM": "truecolor", "CLICOLOR_FORCE": "1"},
    "italian": ITALIAN,
}


@pytest.fixture(autouse=True)
def _usual(monkeypatch: Any) -> None:
    monkeypatch.chdir(ROOT)
    for name in ("LC_ALL", "LC_CTYPE", "LANGUAGE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LANG", "C.UTF-8")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("command", COMMANDS)
def test_it_reads_the_same_everywhere(
    command: str, place: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    usual = inside(capsys, *COMMANDS[command])
    assert usual.code == 0 and usual.out
    for name, value in PLACES[place].items():
        monkeypatch.setenv(name, value)
    assert inside(capsys, *COMMANDS[command]) == usual
    assert "\x1b" not in usual.out and "AM" not in usual.out and "PM" not in usual.out


@pytest.mark.parametrize("command", COMMANDS)
def test_it_is_ascii_where_the_locale_is(command: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    usual = inside(capsys, *COMMANDS[command])
    monkeypatch.setenv("LANG", "C")
    plain = inside(capsys, *COMMANDS[command])
    assert plain.out.isascii()
    assert len(plain.out.splitlines()) == len(usual.out.splitlines())


def test_a_process_of_another_language_speaks_english() -> None:
    usual = relayctl(*COMMANDS["explain"])
    assert "14:30" in usual.out and "September" in usual.out
    assert relayctl(*COMMANDS["explain"], environ=ITALIAN) == usual
