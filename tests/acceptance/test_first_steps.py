"""A newcomer's first minutes, through the installed program: init, validate, inspect, invoke."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.console import ROOT, inside, relayctl


def test_init_writes_a_tree_that_validates_and_runs(tmp_path: Path) -> None:
    made = relayctl("init", "--editor", "--hooks", cwd=tmp_path)
    assert (made.code, made.err) == (0, "")
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert names == {
        "apps/hello/template.yaml", "apps/hello/greet.py", ".gitignore", "schemas/template.schema.json",
        ".vscode/settings.json", ".pre-commit-config.yaml",
    }  # fmt: skip
    valid = relayctl("validate", "--fail-on", "warning", cwd=tmp_path)
    assert valid.code == 0
    assert valid.out.startswith("1 file, 1 schedule: no problems (")
    ran = relayctl("invoke", "hello/every-minute", "--local", cwd=tmp_path)
    assert ran.code == 0, ran.err
    assert ran.out.startswith("hello, it is 20")
    assert relayctl("schema", "--check", "schemas/template.schema.json", cwd=tmp_path).code == 0
    assert "hello/every-minute" in relayctl("inspect", cwd=tmp_path).out


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    template = tmp_path / "apps" / "hello" / "template.yaml"
    template.parent.mkdir(parents=True)
    template.write_text("mine\n")
    made = relayctl("init", str(tmp_path))
    assert made.code == 0
    assert template.read_text() == "mine\n"
    assert f"kept  {template}" in made.out
    assert "--hooks writes it" in made.err


def test_the_written_schema_is_named_by_both_comments(tmp_path: Path) -> None:
    relayctl("init", cwd=tmp_path)
    first, second, *_ = (tmp_path / "apps" / "hello" / "template.yaml").read_text().splitlines()
    assert first.startswith("# yaml-language-server: $schema=") and second.startswith("# $schema:")
    for line in (first, second):
        relative = line.rpartition("=" if "=" in line else " ")[2]
        assert (tmp_path / "apps" / "hello" / relative).resolve() == tmp_path / "schemas" / "template.schema.json"


@pytest.mark.parametrize("app", sorted(path.name for path in (ROOT / "apps").iterdir() if path.is_dir()))
def test_a_sample_app_validates_without_a_warning(
    app: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    answer = inside(capsys, "validate", f"apps/{app}", "--fail-on", "warning", "--format", "json")
    assert answer.code == 0, answer.out
    assert json.loads(answer.out)["problems"] == []


@pytest.mark.parametrize(
    ("target", "event", "line"),
    [
        ("hello/greet.on_greeting", {"name": "Ada"}, "hello Ada"),
        ("orders/orders.on_created", {"record": {"id": 7}}, "order 7: reserving stock in north"),
        ("orders/orders.on_large", {"record": {"id": 7, "total": 1200}}, "order 7 of 1200: asking for a review"),
        ("billing/jobs.invoices.on_payment", {"amount": 5, "payment_id": "p1"}, "booking payment p1 of 5 EUR"),
    ],
)
def test_a_sample_handler_runs_on_an_event(target: str, event: dict[str, object], line: str) -> None:
    answer = relayctl("invoke", target, "--local", "--event", "-", stdin=json.dumps(event).encode())
    assert (answer.code, answer.out) == (0, f"{line}\n"), answer.err


def test_a_handler_that_fails_for_want_of_an_event_says_how_to_give_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    answer = inside(capsys, "invoke", "orders/orders.on_created", "--local")
    assert answer.code == 3
    assert answer.err.splitlines()[-1] == "  help: its event was {}; --event FILE gives it one"


@pytest.mark.parametrize(
    "schedule", ["billing/nightly-cleanup", "billing/month-close", "billing/morning-report", "orders/stale-orders"]
)
def test_a_sample_schedule_runs(schedule: str) -> None:
    answer = relayctl("invoke", schedule, "--local", "--format", "json")
    assert answer.code == 0, answer.err
    document = json.loads(answer.out)
    assert document["outcome"] == "succeeded"
    assert document["occurrence_id"].startswith(f"schedule:{schedule.replace('/', ':')}:")


def test_a_sample_program_runs(tmp_path: Path) -> None:
    import shutil

    app = tmp_path / "apps" / "backups"
    shutil.copytree(ROOT / "apps" / "backups", app)
    template = app / "template.yaml"
    template.write_text(template.read_text().replace("/var/tmp/relayctl-backups", str(tmp_path / "out")))
    answer = relayctl("invoke", "backups/nightly", "--local", cwd=tmp_path)
    assert answer.code == 0, answer.err
    assert len(list((tmp_path / "out").glob("data-*.tar.gz"))) == 1
    assert relayctl("invoke", "backups/bin/verify.sh", "--local", cwd=tmp_path).out == "1 archives can be read\n"


def test_a_run_that_fails_says_why_and_repeats_no_secret(tmp_path: Path) -> None:
    app = tmp_path / "apps" / "crm"
    app.mkdir(parents=True)
    (app / "work.py").write_text(
        'import os\n\n\ndef run(event):\n    print(os.environ["TOKEN"])\n    raise ValueError(os.environ["TOKEN"])\n'
    )
    (app / "template.yaml").write_text(
        "runtime: python\nsecrets: {TOKEN: crm-token}\nevents:\n  - {handler: work.run, pattern: {name: [x]}}\n"
    )
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    missing = relayctl("invoke", "crm/work.run", "--local", cwd=tmp_path)
    assert missing.code == 3
    assert "crm-token" in missing.err
    (mounted / "crm-token").write_text("hunter2-hunter2\n")
    for form in ("text", "json"):
        failed = relayctl(
            "invoke",
            "crm/work.run",
            "--local",
            "--format",
            form,
            cwd=tmp_path,
            environ={"RELAYCTL_SECRETS_DIR": "mounted"},
        )
        assert failed.code == 3
        assert "ValueError" in failed.err + failed.out
        assert "hunter2" not in failed.err + failed.out
