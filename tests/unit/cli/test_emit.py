"""`emit`: what is taken as an event, what is refused and how, and the explanation that needs no broker."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from support.console import inside

APP = """runtime: python
events:
  - {handler: work.run, pattern: {name: [x], secret: [{exists: false}]}}
  - {handler: work.other, pattern: {name: [y]}}
"""


@pytest.fixture
def apps(tmp_path: Path) -> Path:
    folder = tmp_path / "apps" / "demo"
    folder.mkdir(parents=True)
    (folder / "template.yaml").write_text(APP)
    (folder / "work.py").write_text("def run(event):\n    pass\n\n\ndef other(event):\n    pass\n")
    return tmp_path / "apps"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b"", "not JSON (line 1, column 1)"),
        (b"[1]", "found a list where an object belongs"),
        (b'"hunter2"', "found text where an object belongs"),
        (b"3", "found a single value where an object belongs"),
        (b'{"a": hunter2}', "not JSON (line 1, column 7)"),
        (b'{"a": NaN}', "not JSON"),
        (b'{"a": 1}{"b": 2}', "not JSON (line 1, column 9)"),
        (b'{"hunter2": "\xff"}', "not UTF-8"),
        (b"[" * 100_000, "not JSON"),
        (b'{"source": "relay.schedule", "app": "hunter2"}', "source relay.schedule is kept"),
        (b'{"source": "relay.manual"}', "source relay.manual is kept"),
    ],
    ids=["empty", "list", "text", "number", "word", "nan", "two", "bytes", "deep", "schedule", "manual"],
)
def test_what_is_no_event_is_refused_and_not_repeated(
    written: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "event.json"
    file.write_bytes(written)
    answer = inside(capsys, "emit", str(file))
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err and "  help: " in answer.err and "hunter2" not in answer.err


def test_an_event_that_is_too_large_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAYCTL_MAX_EVENT_BYTES", "1024")
    file = tmp_path / "event.json"
    file.write_text(json.dumps({"a": "x" * 1100}))
    answer = inside(capsys, "emit", str(file))
    assert answer.code == 2 and "larger than 1024 bytes" in answer.err
    endless = inside(capsys, "emit", "/dev/zero")
    assert endless.code == 2 and "larger than 1024 bytes" in endless.err


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in (tmp_path / "none.json", tmp_path):
        answer = inside(capsys, "emit", str(name))
        assert answer.code == 2 and "cannot be read" in answer.err


def test_the_explanation_names_rules_and_reasons(
    apps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "event.json"
    file.write_text('{"name": "x", "secret": "hunter2"}')
    answer = inside(capsys, "emit", str(file), "--explain", "--apps", str(apps))
    assert answer.code == 0 and "hunter2" not in answer.out
    assert "no match  demo/work.run" in answer.out and "secret: found a string of 7 characters" in answer.out
    assert not (tmp_path / ".relayctl").exists()
    file.write_text('\ufeff{"name": "y"}\n')
    document = json.loads(inside(capsys, "emit", str(file), "--explain", "--apps", str(apps), "--format", "json").out)
    assert {rule["handler"]: rule["matches"] for rule in document["rules"]} == {"work.run": False, "work.other": True}


def test_a_dash_reads_stdin(apps: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"name": "y"}')))
    answer = inside(capsys, "emit", "-", "--explain", "--apps", str(apps))
    assert answer.code == 0 and answer.out.startswith("match     demo/work.other\n")


def test_a_wrong_format_sends_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "event.json"
    file.write_text("{}")
    answer = inside(capsys, "emit", str(file), "--format", "yaml")
    assert answer.code == 2 and "no format" in answer.err
