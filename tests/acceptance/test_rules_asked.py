"""Rules as users meet them: clean trees stay clean, `rule` explains, and `plan` says what no file can."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.console import inside
from support.templates import SERVICE

_APPS = Path(__file__).resolve().parents[2] / "apps"


def test_the_sample_apps_have_nothing_to_warn_of(capsys: pytest.CaptureFixture[str]) -> None:
    answer = inside(capsys, "validate", "--fail-on", "warning", str(_APPS))
    assert (answer.code, answer.err) == (0, "")
    assert "no problems" in answer.out


def test_what_init_writes_has_nothing_to_warn_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert inside(capsys, "init", "--no-input").code == 0
    answer = inside(capsys, "validate", "--fail-on", "warning")
    assert (answer.code, "no problems" in answer.out) == (0, True)


@pytest.mark.parametrize("asked", ["RLY003", "rly003", "3", "003", "unquoted-star", "Unquoted-Star"])
def test_a_rule_is_found_by_code_number_or_name(asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = inside(capsys, "rule", asked)
    assert answer.code == 0
    assert answer.out.startswith("RLY003 unquoted-star\n")
    assert "        cron: */5 * * * *\n              ^^^^^^^^^^^\n" in answer.out


def test_a_rule_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    answer = inside(capsys, "rule", "RLY270")
    assert answer.code == 2
    assert "did you mean" in answer.err


def test_a_rule_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    (rule,) = json.loads(inside(capsys, "rule", "208", "--format", "json").out)["rules"]
    assert (rule["code"], rule["fix"], rule["can_be_ignored"]) == ("RLY208", "unsafe", True)
    assert "*/7" in rule["bad"]
    assert "*/6" in rule["good"]


def test_plan_names_secrets_without_a_value_where_the_workers_are_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "apps" / "crm"
    directory.mkdir(parents=True)
    (directory / "template.yaml").write_text(f"secrets: {{TOKEN: crm-token}}\n{SERVICE}")
    answer = inside(capsys, "plan")
    assert answer.code == 0
    assert "warning: RLY605 1 secret has no value on this machine: crm-token (in crm)" in answer.out
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    (mounted / "crm-token").write_text("x")
    assert "RLY605" not in inside(capsys, "plan", "--secrets-dir", str(mounted)).out
