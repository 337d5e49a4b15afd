"""The published hooks, run by the real pre-commit in a repository of their own. Nothing is fetched: instead of an
environment that pre-commit would build from an index, they run the program that is installed here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.console import PROGRAM, ROOT, plain
from support.templates import MODELINE, write_app

_PRE_COMMIT = Path(sys.executable).parent / "pre-commit"
_GOOD = f"{MODELINE}runtime: python\nevents:\n  - {{handler: jobs.run, pattern: {{name: [x]}}}}\n"
_BAD = _GOOD.replace("runtime: python", "runtime: python\nenv: {A: on}\nconcurency: 2")


def _git(directory: Path, *arguments: str) -> str:
    who = ("-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "core.hooksPath=none")
    done = subprocess.run(
        ["git", *who, *arguments], cwd=directory, env=plain(), capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A repository that publishes the hooks, as its place and revision."""
    home = tmp_path_factory.mktemp("published")
    text = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    assert text.count("language: python") == 3
    text = text.replace("language: python", "language: system")
    (home / ".pre-commit-hooks.yaml").write_text(text.replace("entry: relayctl", f"entry: {PROGRAM}"))
    _git(home, "init", "-q")
    _git(home, "add", "-A")
    _git(home, "commit", "-qm", "hooks")
    return f"  - repo: {home}\n    rev: {_git(home, 'rev-parse', 'HEAD')}\n    hooks: [{{id: HOOK}}]\n"


@pytest.mark.slow
def test_the_hooks_judge_fix_and_leave_alone(tmp_path: Path, hooks: str) -> None:
    checkout = tmp_path / "checkout"
    write_app(checkout / "apps", "good", _GOOD)
    write_app(checkout / "apps", "bad", _BAD)
    write_app(checkout / ".venv" / "apps", "other", _BAD)
    misnamed = write_app(checkout / "apps", "misnamed", _GOOD) / "template.yaml"
    misnamed.rename(misnamed.with_suffix(".yml"))
    _git(checkout, "init", "-q")
    _git(checkout, "add", "-Af")

    def hook(name: str, *more: str) -> subprocess.CompletedProcess[str]:
        config = tmp_path / f"{name}.yaml"
        config.write_text("repos:\n" + hooks.replace("HOOK", name))
        environ = plain({"PRE_COMMIT_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)})
        return subprocess.run(
            [str(_PRE_COMMIT), "run", "--config", str(config), *more],
            cwd=checkout, env=environ, capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    told = hook("relayctl-validate", "--all-files")
    assert told.returncode == 1, told
    assert "apps/bad/template.yaml:4:1: error RLY101" in told.stdout
    assert "apps/misnamed/template.yml:1:1: error RLY014" in told.stdout
    assert ".venv" not in told.stdout and "apps/good" not in told.stdout

    fixed = hook("relayctl-fix", "--all-files")
    assert fixed.returncode == 1 and "files were modified by this hook" in fixed.stdout
    assert (checkout / "apps/bad/template.yaml").read_text() == _BAD.replace("{A: on}", '{A: "on"}')
    assert (checkout / ".venv/apps/other/template.yaml").read_text() == _BAD

    whole = hook("relayctl-validate-all", "--all-files", "--hook-stage", "manual")
    assert whole.returncode == 1 and "RLY014" in whole.stdout

    clean = hook("relayctl-validate", "--files", "apps/good/template.yaml")
    assert clean.returncode == 0, clean
    unconcerned = hook("relayctl-validate", "--files", "apps/good/jobs.py")
    assert unconcerned.returncode == 0 and "no files to check" in unconcerned.stdout
