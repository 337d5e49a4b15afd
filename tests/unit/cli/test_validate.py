"""`validate` beyond looking: fixes on disk and on stdin, their difference, comments, exclusions, and watching."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.console import Answer, command, inside, plain, relayctl
from support.templates import MODELINE, write_app

_HEAD = f"{MODELINE}runtime: python\nservices:\n  - name: web\n    command: [./serve]\nschedules:\n"
_ONE = "  - name: {name}\n    handler: jobs.run\n    {line}\n"
SAFE = _HEAD + _ONE.format(name="a", line="cron: @daily")
UNSAFE = _HEAD + _ONE.format(name="a", line="every: 1h\n    retires: 2")
WARNED = _HEAD + _ONE.format(name="a", line='cron: "0 9 1 * 1"  # both')

Run = Callable[..., Answer]


@pytest.fixture
def apps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {"safe": SAFE, "unsafe": UNSAFE, "warned": WARNED}.items():
        write_app(tmp_path / "apps", name, text)
    return tmp_path / "apps"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: inside(capsys, "validate", *arguments)


def _read(apps: Path, name: str) -> str:
    return (apps / name / "template.yaml").read_text()


def test_fix_writes_what_is_safe_and_says_so(apps: Path, run: Run) -> None:
    answer = run("--fix", "--format", "json")
    assert (answer.code, answer.err) == (1, "fixed 1 problem in 1 file: RLY004\n")
    document = json.loads(answer.out)
    assert [problem["code"] for problem in document["fixed"]] == ["RLY004"]
    assert document["summary"] | {"errors": 1, "warnings": 1, "fixed": 1} == document["summary"]
    assert _read(apps, "safe") == SAFE.replace("@daily", '"@daily"')
    assert (_read(apps, "unsafe"), _read(apps, "warned")) == (UNSAFE, WARNED)
    assert run("--fix", "apps/safe").code == 0
    assert run("--fix", "--unsafe-fixes", "--ignore", "2").code == 0
    assert _read(apps, "unsafe") == UNSAFE.replace("retires", "retries")
    assert _read(apps, "warned") == WARNED


def test_a_fix_can_be_made_to_fail_the_run(apps: Path, run: Run) -> None:
    assert run("apps/safe", "--fix", "--exit-non-zero-on-fix").code == 1
    assert run("apps/safe", "--fix", "--exit-non-zero-on-fix").code == 0


def test_the_difference_changes_nothing(apps: Path, run: Run) -> None:
    answer = run("--diff", "--unsafe-fixes", "--ignore", "RLY207")
    assert answer.code == 1
    assert '-    cron: @daily\n+    cron: "@daily"\n' in answer.out and "+    retries: 2\n" in answer.out
    assert answer.err == "would fix 2 problems in 2 files: RLY004, RLY101\n"
    assert (_read(apps, "safe"), _read(apps, "unsafe")) == (SAFE, UNSAFE)
    assert run("apps/warned", "--diff") == Answer(0, "", "nothing to fix\n")
    assert run("apps/warned", "--diff", "--unsafe-fixes", "--exit-non-zero-on-fix").code == 1


def test_comments_are_added_and_can_be_looked_through(apps: Path, run: Run) -> None:
    answer = run("apps/warned", "--add-ignores", "--fail-on", "warning")
    assert (answer.code, answer.err) == (0, "wrote 1 comment in 1 file; put the reason behind each\n")
    assert "    # relay: ignore[RLY207]\n    cron" in _read(apps, "warned")
    assert run("apps/warned", "--no-ignores", "--fail-on", "warning").code == 1
    assert "RLY902" in run("apps/warned", "--strict").out


def test_stdin_comes_back_fixed_to_the_byte(apps: Path) -> None:
    text = b"\xef\xbb\xbf" + SAFE.replace("\n", "\r\n").encode()
    place = ("--stdin-filename", "apps/safe/template.yaml")
    answer = relayctl("validate", "-", *place, "--fix", stdin=text, cwd=apps.parent)
    assert answer.code == 0, answer
    assert answer.out.encode() == text.replace(b"@daily", b'"@daily"')
    assert answer.err == "fixed 1 problem in 1 file: RLY004\n"
    broken = relayctl("validate", "-", "--fix", stdin=b"a: {b\n", cwd=apps.parent)
    assert (broken.code, broken.out) == (1, "a: {b\n")
    assert broken.err.startswith("stdin/template.yaml:1:4: error RLY002 ")
    assert _read(apps, "safe") == SAFE


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--unsafe-fixes",), "add --fix or --diff"),
        (("--exit-non-zero-on-fix",), "add --fix or --diff"),
        (("--fix", "--add-ignores"), "fix first"),
        (("--fix", "--statistics"), "leave one of them out"),
        (("--watch", "--fix"), "--watch only shows findings"),
        (("--tz-horizon", "a year"), "--tz-horizon"),
        (("--tz-horizon", "9999d"), "3660d"),
        (("--diff", "--format", "sarif"), "there is only text"),
    ],
)
@pytest.mark.usefixtures("apps")
def test_what_says_nothing_together_is_refused(arguments: tuple[str, ...], words: str, run: Run) -> None:
    answer = run(*arguments)
    assert answer.code == 2
    assert words in answer.err


def test_what_a_hook_names_in_a_hidden_directory_is_left_alone(apps: Path, run: Run) -> None:
    hidden = write_app(apps.parent / ".venv" / "apps", "bad", UNSAFE) / "template.yaml"
    relative = hidden.relative_to(apps.parent).as_posix()
    assert run(relative).code == 1
    for named in (relative, str(hidden)):
        answer = run(named, "--force-exclude")
        assert (answer.code, answer.out.partition("(")[0]) == (0, "0 files, 0 schedules: no problems ")
    assert run(relative, "apps/unsafe/template.yaml", "--force-exclude", "--list-files").out == (
        "apps/unsafe/template.yaml\n"
    )


def test_a_nearer_horizon_looks_at_fewer_clock_changes(apps: Path, run: Run) -> None:
    line = 'cron: "30 2 * * *"\n    timezone: Europe/Rome'
    write_app(apps, "clock", _HEAD + _ONE.format(name="a", line=line))
    at = ("apps/clock", "--from", "2026-09-29", "--format", "concise")
    assert [line.split()[2] for line in run(*at).out.splitlines()] == ["RLY305", "RLY306"]
    assert [line.split()[2] for line in run(*at, "--tz-horizon", "60d").out.splitlines()] == ["RLY306"]


@pytest.mark.usefixtures("apps")
def test_reports_name_files_from_the_checkout_on(apps: Path, run: Run) -> None:
    named = str(apps / "unsafe")
    (result,) = json.loads(run(named, "--format", "sarif").out)["runs"][0]["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    (issue,) = json.loads(run(named, "--format", "gitlab").out)
    assert uri == issue["location"]["path"] == "apps/unsafe/template.yaml"
    assert 'name="apps/unsafe/template.yaml"' in run(named, "--format", "junit").out
    assert "| apps/unsafe/template.yaml:10:5 | error | RLY101 |" in run(named, "--format", "markdown").out
    assert "file=apps/unsafe/template.yaml,line=10" in run(named, "--format", "github").out


def test_a_link_within_the_tree_is_followed(apps: Path, run: Run) -> None:
    write_app(apps, "linked", SAFE)
    link = apps / "linked" / "template.yaml"
    link.unlink()
    link.symlink_to("../safe/template.yaml")
    (apps / "again").symlink_to("safe")
    answer = run("--fix", "--select", "0")
    assert (answer.code, answer.err) == (0, "fixed 1 problem in 1 file: RLY004\n")
    assert link.is_symlink() and '"@daily"' in _read(apps, "safe")


def test_watching_shows_what_was_touched(apps: Path) -> None:
    (apps / "unsafe" / "template.yaml").unlink()
    arguments = command("validate", "--watch", "--format", "concise")
    process = subprocess.Popen(
        arguments, cwd=apps.parent, env=plain(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        assert [process.stdout.readline().split()[2] for _ in range(2)] == ["RLY004", "RLY207"]
        assert process.stderr.readline() == "watching apps; Ctrl-C ends it\n"
        draft = apps / "safe" / "draft"
        draft.write_text(SAFE.replace("cron: @daily", "every: 1x"))
        os.replace(draft, apps / "safe" / "template.yaml")
        # A look may come between the draft and its move; what was written shows in the end.
        while "RLY107" not in (line := process.stdout.readline()):
            assert line
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr.read() == "no longer watching; nothing was changed\n"
    finally:
        process.kill()
        process.communicate()
