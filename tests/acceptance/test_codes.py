"""The exit codes that commands without a fleet can reach, and what is said with each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.console import ROOT, Answer, inside, relayctl


def _app(root: Path, name: str, text: str) -> Path:
    directory = root / "apps" / name
    directory.mkdir(parents=True)
    (directory / "work.py").write_text("def run(event):\n    pass\n")
    (directory / "template.yaml").write_text(text)
    return directory


GOOD = "runtime: python\nevents:\n  - {handler: work.run, pattern: {name: [x]}}\n"
WARNS = GOOD + 'schedules:\n  - {name: s, handler: work.run, cron: "0 9 1 * 1"}\n'
BAD = GOOD.replace("events", "evnts")


def _told(answer: Answer) -> str:
    assert "Traceback" not in answer.out + answer.err
    return answer.err


def test_validate(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def code(*arguments: str, below: str = "") -> int:
        monkeypatch.chdir(tmp_path / below)
        return inside(capsys, "validate", *arguments).code

    _app(tmp_path, "good", GOOD)
    _app(tmp_path, "warns", WARNS)
    (tmp_path / "empty").mkdir()
    assert code() == 0
    assert code("--fail-on", "warning") == 1
    assert code("--fail-on", "warning", "--ignore", "RLY2") == 0
    _app(tmp_path, "bad", BAD)
    assert code() == 1
    assert code("--exit-zero") == 0
    assert code("--select", "RLY2") == 0
    assert code("apps/good") == 0
    assert code("apps/good/template.yaml", "apps/bad") == 1
    assert code("template.yaml", below="apps/good") == 0
    assert code(".", below="apps/good") == 0
    assert code("apps/nowhere") == 2
    assert code("--select", "RLY999") == 2
    assert code("empty") == 9
    assert code(below="empty") == 9


def test_the_forms_of_validate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _app(tmp_path, "bad", BAD)
    _app(tmp_path, "warns", WARNS)
    document = json.loads(inside(capsys, "validate", "--format", "json").out)
    assert document["v"] == 1 and document["summary"]["files"] == 2
    assert {problem["code"] for problem in document["problems"]} >= {"RLY101", "RLY207"}
    lines = inside(capsys, "validate", "--format", "github").out.splitlines()
    assert any(
        line.startswith("::error file=apps/bad/template.yaml,line=2,col=1,endColumn=6,title=RLY101::") for line in lines
    )
    concise = inside(capsys, "validate", "--format", "concise").out.splitlines()
    assert len(concise) == len(document["problems"])
    counted = inside(capsys, "validate", "--statistics").out
    assert "RLY207" in counted and "day-or-day" in counted
    listed = inside(capsys, "validate", "--list-files")
    assert (listed.code, listed.out) == (0, "apps/bad/template.yaml\napps/warns/template.yaml\n")


def test_stdin_is_checked_as_the_file_it_stands_for(tmp_path: Path) -> None:
    _app(tmp_path, "crm", GOOD)
    text = GOOD.replace("work.run", "work.rnu").encode()
    named = relayctl("validate", "-", "--stdin-filename", "apps/crm/template.yaml", stdin=text, cwd=tmp_path)
    assert named.code == 1
    assert "apps/crm/template.yaml:3:" in named.out and "RLY403" in named.out
    assert relayctl("validate", "-", stdin=GOOD.encode(), cwd=tmp_path).code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "Usage: relayctl"),
        (("valdate",), 2, 'did you mean "validate"?'),
        (("validate", "--selct", "x"), 2, "--select"),
        (("validate", "--format", "jsn"), 2, 'did you mean "json"?'),
        (("explain",), 2, "CRON"),
        (("explain", "61 * * * *"), 1, "0-59"),
        (("explain", "0 0 30 2 *"), 1, ""),
        (("explain", "@daily", "--from", "soon"), 2, "write 2026-09-29T03:00:00Z"),
        (("rule",), 2, "--all"),
        (("rule", "RLY2077"), 2, "did you mean"),
        (("inspect", "billng"), 2, 'did you mean "billing"?'),
        (("inspect", "billing/nightly"), 2, "billing/nightly-cleanup"),
        (("invoke", "hello/every-minute", "--state-dir", "nowhere"), 3, "--local"),
        (("invoke", "/every-minute"), 2, "APP/NAME"),
        (("invoke", "hello/evry-minute", "--local"), 2, "hello/every-minute"),
        (("invoke", "hello/every-minute", "--local", "--event", "nowhere.json"), 2, "nowhere.json"),
        (("version", "--config", "nowhere.toml", "--color", "always"), 2, "nowhere.toml"),
        (("version", "--namespace", "No"), 2, "--namespace"),
        (("version", "--output-file", "/nowhere/x"), 3, "/nowhere/x"),
        (("completion", "tcsh"), 2, "tcsh"),
        (("inspect", "--apps", "nowhere"), 9, "nowhere"),
    ],
)
def test_a_mistake_has_its_code_and_its_way_out(
    arguments: tuple[str, ...],
    code: int,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    answer = inside(capsys, *arguments)
    assert answer.code == code, answer
    assert words in _told(answer)


def test_an_internal_error_is_one_line_and_a_report_on_request(tmp_path: Path) -> None:
    # A directory in place of the module that a verb imports is as good a broken installation as any.
    script = (
        "import sys, relayctl.cli.versions as v\n"
        "def broken(): raise RuntimeError('hunter2')\n"
        "v.versions = broken\n"
        "from relayctl.cli.app import run\nsys.exit(run(sys.argv[1:]))\n"
    )
    import subprocess
    import sys

    from support.console import plain

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environ = plain({"TMPDIR": str(tmp_path)})
        return subprocess.run(
            [sys.executable, "-c", script, *arguments], env=environ, capture_output=True, text=True, timeout=30
        )

    plain_run, verbose = run("version"), run("version", "-v")
    assert plain_run.returncode == verbose.returncode == 3
    assert plain_run.stderr.splitlines()[0].startswith("error: internal error: RuntimeError in relayctl.cli.version:")
    assert len(plain_run.stderr.splitlines()) == 2
    report = next(tmp_path.glob("relayctl-report-*.txt"))
    assert str(report) in verbose.stderr
    assert "hunter2" not in report.read_text() + plain_run.stderr + verbose.stderr


def test_output_can_go_to_files(tmp_path: Path) -> None:
    answer = relayctl("version", "--output-file", "out.txt", "--json-file", "out.json", cwd=tmp_path)
    assert (answer.code, answer.out) == (0, "")
    assert (tmp_path / "out.txt").read_text().startswith("relayctl ")
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["v"] == 1 and set(document) == {"v", "relayctl", "evaluator", "tzdata", "python", "formats"}


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_output_goes_through_what_is_no_plain_file(kind: str, tmp_path: Path) -> None:
    import os
    import threading

    place, real, read = tmp_path / "place", tmp_path / "real", []
    if kind == "link":
        place.symlink_to(real)
    else:
        os.mkfifo(place)
        reader = threading.Thread(target=lambda: read.append(place.read_text()), daemon=True)
        reader.start()
    assert relayctl("version", "--output-file", str(place)).code == 0
    if kind == "link":
        assert place.is_symlink()
        read.append(real.read_text())
    else:
        reader.join(10)
        assert place.is_fifo()
    assert read[0].startswith("relayctl ")
    assert {path.name for path in tmp_path.iterdir()} <= {"place", "real"}


@pytest.mark.parametrize("command", [("inspect",), ("inspect", "hello/every-minute"), ("simulate", "hello")])
def test_documents_are_written_at_any_moment(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    # The clock has fractions of a second, and documents have none.
    answer = inside(capsys, *command, "--apps", str(ROOT / "apps"), "--format", "json")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["v"] == 1


def test_a_shared_option_in_front_of_the_command_is_told_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert inside(capsys, "-q", "version").err.splitlines()[1] == (
        "  help: options stand behind the command: relayctl COMMAND -q"
    )
    assert inside(capsys, "--nonsense", "version").err.splitlines()[1] == "  help: relayctl --help"


def test_quiet_keeps_what_went_wrong(tmp_path: Path) -> None:
    app = tmp_path / "apps" / "shop"
    app.mkdir(parents=True)
    (app / "template.yaml").write_text("runtime: python\nevents:\n  - {handler: work.run, pattern: {name: [x]}}\n")
    (app / "work.py").write_text("def run(event):\n    raise SystemExit(4)\n")
    failed = relayctl("invoke", "shop/work.run", "--local", "-q", cwd=tmp_path)
    assert failed.code == 3 and "exit code 4" in failed.err
    (app / "work.py").write_text("")
    broken = relayctl("inspect", "-q", cwd=tmp_path)
    assert broken.code == 1 and "RLY403" in broken.err


def test_a_trial_takes_what_is_json_and_what_a_worker_would_send(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "event.json"
    target = ("invoke", "hello/greet.on_greeting", "--local", "--apps", str(ROOT / "apps"), "--event", str(file))
    file.write_text('{"name": NaN}')
    assert (inside(capsys, *target).code, file.write_text('{"source": "relay.schedule", "name": "Ada"}')) == (2, 43)
    assert inside(capsys, *target).out == "hello Ada\n"


def test_no_help_page_shows_a_value_of_the_environment() -> None:
    answer = relayctl("config", "show", "--help", environ={"RELAYCTL_REDIS_URL": "redis://:hunter2@h"})
    assert "hunter2" not in answer.out + answer.err
    wrong = relayctl("config", "show", environ={"RELAYCTL_REDIS_URL": "http://:hunter2@h"})
    assert wrong.code == 2
    assert "hunter2" not in wrong.out + wrong.err
