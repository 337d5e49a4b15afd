"""Slips of a first hour: each is answered by what to do, on stderr."""

from __future__ import annotations

from pathlib import Path

import pytest

from relayctl.cli import app as cli


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["init", "--no-input", "-q"]) == 0
    capsys.readouterr()
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int) -> tuple[str, str]:
    assert cli.run(arguments) == code
    output = capsys.readouterr()
    return output.out, output.err


def test_init_names_the_next_steps(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = said(capsys, "init", "--no-input", "elsewhere", code=0)
    assert "next: relayctl validate --apps elsewhere/apps\n" in out
    assert out.endswith("      relayctl serve --apps elsewhere/apps\n")


def test_an_expression_without_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = said(capsys, "explain", "0", "3", "apps", "apps", "apps", code=2)
    assert err.splitlines()[1] == '  help: put it in quotes: relayctl explain "0 3 * * *"'


def test_a_tree_that_holds_files_but_no_template(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "apps/hello/template.yaml").unlink()
    out, err = said(capsys, "validate", code=9)
    assert out == ""
    assert err.startswith("error: no template.yaml in apps\n  help: apps/hello: the directory has files")


def test_remarks_on_directories_do_not_count_as_files(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "apps/notes").mkdir()
    (tree / "apps/notes/todo.txt").write_text("later\n")
    out, _ = said(capsys, "validate", "--strict", code=0)
    assert "4 remarks (1 file, 1 schedule" in out


def test_a_week_is_drawn_whole(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = said(capsys, "simulate", "--by", "week", "--from", "2026-09-28", code=0)
    assert "10,080 firings in 7 d" in out


def test_no_secret_is_said_so_and_leaves_stdout_empty(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = said(capsys, "secret", "ls", code=0)
    assert out == ""
    assert "relayctl secret set NAME" in err


def test_choices_are_listed_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = said(capsys, "completion", code=2)
    assert err.splitlines()[0] == "error: missing argument 'SHELL'. Choose from: bash, zsh, fish"
