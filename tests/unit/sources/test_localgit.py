"""Git is asked about the directory that is named, whatever a hook that runs relayctl has set."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.gitorigin import Origin

from relayctl.errors import FileFailure, UsageError
from relayctl.sources.committed import apps_of_commit
from relayctl.sources.worktree import clean_commit


def test_within_a_hook_it_is_still_the_named_checkout(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = Origin(tmp_path_factory.mktemp("one"))
    origin.app("a")
    commit = origin.push()
    monkeypatch.setenv("GIT_DIR", ".git")
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/index")
    found = apps_of_commit(origin.apps, "HEAD", tmp_path / "out")
    assert (found.id, found.apps) == (commit, tmp_path / "out")
    assert (tmp_path / "out" / "a" / "template.yaml").is_file()
    assert clean_commit(origin.apps) == commit


def test_what_is_no_checkout_or_without_git_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="is in no git repository"):
        apps_of_commit(tmp_path, "HEAD", tmp_path / "out")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileFailure, match=r"cannot be asked about .*: no such file") as failed:
        apps_of_commit(tmp_path, "HEAD", tmp_path / "out")
    assert (failed.value.help or "").startswith("install git")
