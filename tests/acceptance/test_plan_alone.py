"""plan, status and inspect without a fleet: what a user reads, and every exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.console import Answer, inside, plain, relayctl
from support.schema import conforms

GOOD = "runtime: python\nevents:\n  - {handler: work.run, pattern: {name: [x]}}\nschedules:\n  - {name: nightly, handler: work.run, cron: '0 3 * * *'}\n"


def _app(root: Path, text: str = GOOD, name: str = "crm") -> Path:
    directory = root / "apps" / name
    directory.mkdir(parents=True)
    (directory / "work.py").write_text("def run(event):\n    pass\n")
    (directory / "template.yaml").write_text(text)
    return directory


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _no_leak(answer: Answer) -> Answer:
    assert "Traceback" not in answer.out + answer.err
    assert "s3cret" not in answer.out + answer.err
    return answer


def test_without_a_broker_everything_is_new(at: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _app(at)
    answer = inside(capsys, "plan")
    assert (answer.code, answer.err) == (0, "")
    assert "Running   nothing: no broker is running here" in answer.out
    assert "+ nightly" in answer.out
    assert "\x1b" not in answer.out
    assert inside(capsys, "plan", "--detailed-exitcode").code == 10
    assert inside(capsys, "plan", "--detailed-exitcode", "--target", "crm/nightly").code == 10
    for form in ("json", "jsonl", "markdown"):
        assert inside(capsys, "plan", "--detailed-exitcode", "--format", form).code == 10
    document = json.loads(inside(capsys, "plan", "--format", "json").out)
    conforms(document, "plan")
    assert document["summary"]["create"] == 2
    assert not (at / ".relayctl").exists()


def test_every_code(at: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inside(capsys, "plan").code == 9
    (at / "apps").mkdir()
    assert inside(capsys, "plan", "--detailed-exitcode").code == 9
    _app(at)
    for command in ("plan", "status", "inspect"):
        answer = _no_leak(inside(capsys, command, "--redis", "redis://:s3cret@127.0.0.1:1"))
        assert (answer.code, answer.out) == (3, "")
        assert "cannot be reached" in answer.err
        assert "--redis" in answer.err
        assert inside(capsys, command, "--redis", "nonsense://s3cret").code == 2
    assert "--offline" in inside(capsys, "inspect", "--redis", "redis://127.0.0.1:1").err
    offline = inside(capsys, "inspect", "--offline", "--redis", "redis://127.0.0.1:1")
    assert (offline.code, offline.err) == (0, "")
    assert inside(capsys, "plan", "--target", "crm/").code == 2
    near = inside(capsys, "plan", "--target", "crm/nigthly")
    assert near.code == 2
    assert 'did you mean "crm/nightly"?' in near.err
    for horizon in ("0s", "400d", "soon", "-1h"):
        wrong = inside(capsys, "plan", "--horizon", horizon)
        assert (wrong.code, wrong.out) == (2, "")
        assert "--horizon" in wrong.err
    _app(at, GOOD.replace("0 3", "61 3"), name="bad")
    broken = inside(capsys, "plan", "--detailed-exitcode")
    assert broken.code == 1
    assert "held      bad: apps/bad/template.yaml:5 RLY201" in broken.out
    assert "+ nightly" in broken.out


def test_a_secret_in_a_broken_template_is_not_repeated(at: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _app(at, GOOD + "env: {CRM_TOKEN: s3cret-and-long-enough-9f8e7d}\n")
    _app(at, GOOD + "env: {NOTE: s3cret}\n", name="quiet")
    for form in ("text", "json", "jsonl", "markdown"):
        answer = _no_leak(inside(capsys, "plan", "--format", form))
        assert answer.code == 1
        assert "RLY601" in answer.out


def test_a_directory_that_cannot_be_an_app_is_held(at: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _app(at)
    (_app(at, name="odd") / "template.yaml").rename(at / "apps" / "odd" / "template.yml")
    answer = inside(capsys, "plan")
    assert answer.code == 1
    assert "held      odd: apps/odd/template.yml:1 RLY014" in answer.out


def _git(at: Path, *arguments: str) -> None:
    who = ("-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=at, env=plain(), check=True, capture_output=True, timeout=30)


def test_against_a_commit_or_a_directory(at: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = _app(at) / "template.yaml"
    _app(at, name="gone")
    (at / ".gitattributes").write_text("apps export-ignore\n")
    _git(at, "init", "-q")
    _git(at, "add", "-A")
    _git(at, "commit", "-qm", "first")
    quiet = inside(capsys, "plan", "--against", "HEAD", "--detailed-exitcode")
    assert (quiet.code, quiet.err) == (0, "")
    assert "(HEAD) · 2 apps, 2 schedules" in quiet.out
    template.write_text(GOOD.replace("0 3 * * *", "*/30 3 * * *"))
    (at / "apps" / "gone" / "template.yaml").write_text("runtime: [")
    _git(at, "commit", "-qam", "second")
    (at / "apps" / "gone" / "template.yaml").unlink()
    changed = inside(capsys, "plan", "--against", "HEAD~1", "--detailed-exitcode")
    assert changed.code == 10
    assert "0 3 * * *  →  */30 3 * * *" in changed.out
    assert "firings            1  →  2 in the next 24 h" in changed.out
    assert "- nightly" in changed.out
    conforms(json.loads(inside(capsys, "plan", "--against", "HEAD~1", "--format", "json").out), "plan")
    broken = inside(capsys, "plan", "--against", "HEAD", "--detailed-exitcode")
    assert broken.code == 0
    assert "warning: gone has errors in apps/ of commit" in broken.out
    folder = inside(capsys, "plan", "--against", "apps", "--detailed-exitcode")
    assert (folder.code, folder.err) == (0, "")
    assert "Against   apps/ at " in folder.out
    for wrong in ("nope", "-h", "--output=x", "HEAD:apps"):
        answer = inside(capsys, "plan", f"--against={wrong}")
        assert (answer.code, answer.out) == (2, "")
        assert "neither a directory nor a commit here" in answer.err
    assert not (at / ".relayctl").exists()


def test_against_needs_a_repository_for_a_commit(at: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _app(at)
    answer = inside(capsys, "plan", "--against", "HEAD")
    assert (answer.code, answer.out) == (2, "")
    assert "is in no git repository" in answer.err
    _git(at, "init", "-q")
    answer = inside(capsys, "plan", "--against", "HEAD")
    assert (answer.code, answer.out) == (2, "")
    assert "has none yet" in answer.err and "commit the apps first" in answer.err


def test_a_saved_plan_is_private_and_shown_without_its_tree(
    at: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    app = _app(at, GOOD + "env: {MODE: s3cret}\n")
    saved = inside(capsys, "plan", "--out", "plan.json", "--target", "crm/nightly", "--detailed-exitcode")
    assert saved.code == 10
    assert "saved to plan.json" in saved.err
    assert (at / "plan.json").stat().st_mode & 0o777 == 0o600
    text = (at / "plan.json").read_text()
    assert "s3cret" not in text
    conforms(json.loads(text), "planfile")
    # Though only a part was shown, all of it is saved.
    assert [change["name"] for change in json.loads(text)["plan"]["changes"]] == ["nightly", "work.run"]
    whole = inside(capsys, "plan").out
    (app / "template.yaml").unlink()
    shown = inside(capsys, "plan", "--show", "plan.json", "--detailed-exitcode")
    assert (shown.code, shown.err) == (10, "")
    heads = [line for line in shown.out.splitlines() if line not in whole.splitlines()]
    assert [line[:15] for line in heads if "first fire" not in line] == ["Saved     plan "]
    for form in ("json", "jsonl", "markdown"):
        answer = inside(capsys, "plan", "--show", "plan.json", "--format", form)
        assert (answer.code, answer.err) == (0, "")
    conforms(json.loads(inside(capsys, "plan", "--show", "plan.json", "--format", "json").out), "plan")


def test_what_cannot_be_shown_or_saved(at: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _app(at)
    for content, code in (("", 2), ("[]", 2), ("{}", 2), ('{"kind": "relayctl plan", "v": 2}', 3), ("[" * 100_000, 2)):
        (at / "plan.json").write_text(content)
        answer = _no_leak(inside(capsys, "plan", "--show", "plan.json"))
        assert (answer.code, answer.out) == (code, "")
        assert answer.err.startswith("error: plan.json: ")
    assert inside(capsys, "plan", "--show", "missing").code == 2
    assert inside(capsys, "plan", "--show", ".").code == 3
    for pair in (("--show", "--out"), ("--show", "--against"), ("--out", "--against"), ("--show", "--horizon")):
        answer = inside(capsys, "plan", *(part for flag in pair for part in (flag, "1h")))
        assert (answer.code, answer.out) == (2, "")
        assert "does not go together with" in answer.err
    assert inside(capsys, "plan", "--out", "nowhere/plan.json").code == 3
    _app(at, GOOD.replace("0 3", "61 3"), name="bad")
    broken = inside(capsys, "plan", "--out", "new.json")
    assert broken.code == 1
    assert "new.json: not saved" in broken.err
    assert not (at / "new.json").exists()


def test_a_saved_plan_prints_no_control_characters(at: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _app(at)
    inside(capsys, "plan", "--out", "plan.json")
    text = (at / "plan.json").read_text()
    (at / "plan.json").write_text(text.replace("work.run", "\\u001b[2Jwork.run\\ud800"))
    for form in ("text", "json", "jsonl", "markdown"):
        answer = _no_leak(inside(capsys, "plan", "--show", "plan.json", "--format", form))
        assert answer.code == 0
        assert "\x1b" not in answer.out


def test_status_needs_a_broker_and_says_the_way_out(at: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = inside(capsys, "status")
    assert (answer.code, answer.out) == (3, "")
    assert "no broker is configured" in answer.err
    assert "relayctl serve" in answer.err


def test_inspect_needs_none(at: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _app(at)
    answer = inside(capsys, "inspect")
    assert (answer.code, answer.err) == (0, "")
    for arguments in ((), ("crm/nightly",)):
        conforms(json.loads(inside(capsys, "inspect", *arguments, "--format", "json").out), "inspect")


def test_a_plain_terminal_reads_plain_text(tmp_path: Path) -> None:
    _app(tmp_path)
    answer = relayctl("plan", cwd=tmp_path, environ={"LANG": "C", "LC_ALL": "C"})
    assert answer.code == 0
    assert answer.out.isascii()
    assert "-> work.run" in answer.out


def test_without_a_broker_its_client_is_not_loaded(tmp_path: Path) -> None:
    _app(tmp_path)
    program = "import sys\nfrom relayctl.cli.app import run\ncodes = [int(run([verb])) for verb in ('plan', 'inspect')]\nprint(codes, [name for name in ('redis', 'sqlite_utils', 'croniter', 'watchfiles') if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=plain(), capture_output=True, text=True, timeout=30
    )
    assert done.stdout.splitlines()[-1] == "[0, 0] []", done.stderr
