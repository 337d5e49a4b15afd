"""Bundles: equal trees make equal bytes, what is no part of a tree stays behind, and nothing leaves the directory."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest

from relayctl.errors import BundleDamaged, FileFailure, NewerFormat, Refused
from relayctl.sources.bundle import MARK, pack, unpack
from relayctl.sources.worktree import clean_commit, ignored_paths
from relayctl.templates.load import load_tree

if TYPE_CHECKING:
    from pathlib import Path

MAX = 1 << 20


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def names_in(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def unpacked(root: Path, into: Path, ignored: frozenset[str] = frozenset()) -> list[str]:
    bundle = pack(root, max_bytes=MAX, ignored=ignored)
    unpack(bundle.data, bundle.digest, into, max_bytes=MAX)
    assert bundle.files == len(names_in(into))
    return names_in(into)


def made(members: dict[str, bytes], mark: bytes = b"1\n", change: object = None) -> tuple[bytes, str]:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in {MARK: mark, **members}.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            if name == change:
                info.type, info.linkname, info.size = tarfile.SYMTYPE, "/etc", 0
            tar.addfile(info, io.BytesIO(content[: info.size]))
    raw = buffer.getvalue()
    return gzip.compress(raw), hashlib.sha256(raw).hexdigest()


def test_equal_files_make_equal_bundles(tmp_path: Path) -> None:
    files = {"b/template.yaml": "x", "a/template.yaml": "y", "a/lib/deep/x.py": "z", "shared/util.py": "s"}
    one, two = tree(tmp_path / "one", files), tree(tmp_path / "two", dict(reversed(files.items())))
    os.utime(two / "a" / "template.yaml", (1, 1))
    (two / "b" / "template.yaml").chmod(0o600)
    first, second = pack(one, max_bytes=MAX), pack(two, max_bytes=MAX)
    assert (first.digest, first.data) == (second.digest, second.data)
    (two / "b" / "template.yaml").chmod(0o700)
    assert pack(two, max_bytes=MAX).digest != first.digest


def test_it_unpacks_to_what_a_worker_would_see(tmp_path: Path) -> None:
    root = tree(tmp_path / "apps", {"a/template.yaml": "runtime: exec\n", "a/bin/run": "#!/bin/sh\n", "a/é.txt": "é"})
    (root / "a" / "bin" / "run").chmod(0o755)
    (root / "a" / os.fsdecode(b"raw-\xff")).write_text("any bytes")
    assert len(unpacked(root, tmp_path / "out")) == 4
    assert os.access(tmp_path / "out" / "a" / "bin" / "run", os.X_OK)
    assert load_tree(tmp_path / "out").digest == load_tree(root).digest


def test_caches_dependencies_and_hidden_files_stay_behind(tmp_path: Path) -> None:
    files = ["a/template.yaml", "a/jobs.py", "a/.python-version", "a/.env", "a/node_modules/x/i.js", "a/venv/bin/py"]
    files += ["a/__pycache__/jobs.pyc", "a/jobs.pyc", "a/jobs.py~", ".git/config", "a/x.egg-info/PKG", "notes.md"]
    root = tree(tmp_path / "apps", dict.fromkeys(files, "x"))
    assert unpacked(root, tmp_path / "out") == ["a/.python-version", "a/jobs.py", "a/template.yaml", "notes.md"]


def git(at: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", "-C", str(at), *identity, *arguments], check=True, capture_output=True, timeout=30)


def test_what_git_ignores_stays_behind(tmp_path: Path) -> None:
    root = tree(
        tmp_path / "repo" / "apps",
        {"a/template.yaml": "x", "a/secret.txt": "s", "a/out/big.bin": "b", "a/kept.log": "k", "a/new.py": "n"},
    )
    (tmp_path / "repo" / ".gitignore").write_text("secret.txt\nout/\n*.log\n")
    git(tmp_path / "repo", "init")
    git(tmp_path / "repo", "add", "-f", "apps/a/template.yaml", "apps/a/kept.log", ".gitignore")
    git(tmp_path / "repo", "commit", "-m", "x")
    assert unpacked(root, tmp_path / "out", ignored_paths(root)) == ["a/kept.log", "a/new.py", "a/template.yaml"]
    assert clean_commit(root) == ""
    git(tmp_path / "repo", "add", "apps/a/new.py")
    git(tmp_path / "repo", "commit", "-m", "y")
    assert len(clean_commit(root)) == 40
    (root / "a" / "new.py").write_text("changed")
    assert clean_commit(root) == ""


def test_a_directory_that_git_ignores_as_a_whole_is_taken_as_it_is(tmp_path: Path) -> None:
    root = tree(tmp_path / "repo" / "made" / "apps", {"a/template.yaml": "x"})
    (tmp_path / "repo" / ".gitignore").write_text("made/\n")
    git(tmp_path / "repo", "init")
    assert ignored_paths(root) == frozenset()
    assert clean_commit(root) == ""


def test_a_checkout_that_git_cannot_read_is_no_guess(tmp_path: Path) -> None:
    root = tree(tmp_path / "apps", {"a/template.yaml": "x", ".git": "gitdir: /nowhere/at/all"})
    with pytest.raises(FileFailure, match="git cannot say what it ignores"):
        ignored_paths(root)


def test_links_are_followed_inside_and_refused_outside(tmp_path: Path) -> None:
    root = tree(tmp_path / "apps", {"a/template.yaml": "x", "shared/lib.py": "l"})
    (root / "b").symlink_to("a")
    (root / "a" / "lib.py").symlink_to("../shared/lib.py")
    (root / "a" / "shared").symlink_to("../shared")
    assert unpacked(root, tmp_path / "out") == [
        *("a/lib.py", "a/shared/lib.py", "a/template.yaml"),
        *("b/lib.py", "b/shared/lib.py", "b/template.yaml", "shared/lib.py"),
    ]
    (root / "a" / "passwd").symlink_to("/etc/passwd")
    with pytest.raises(FileFailure, match="leaves the apps directory"):
        pack(root, max_bytes=MAX)
    (root / "a" / "passwd").unlink()
    (root / "a" / "up").symlink_to("..")
    with pytest.raises(FileFailure, match="directory above it"):
        pack(root, max_bytes=MAX)
    (root / "a" / "up").unlink()
    (root / "a" / "gone").symlink_to("nowhere")
    with pytest.raises(FileFailure, match="leads nowhere"):
        pack(root, max_bytes=MAX)


def test_links_that_multiply_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relayctl.sources.bundle.MAX_FILES", 200)
    for level in range(40):
        (tmp_path / str(level)).mkdir()
        for name in "ab":
            (tmp_path / str(level) / name).symlink_to(tmp_path / str(level + 1))
    (tmp_path / "40").mkdir()
    with pytest.raises(Refused, match="more than 200 files"):
        pack(tmp_path, max_bytes=MAX)


def test_what_is_too_large_is_refused_by_the_names_of_the_largest(tmp_path: Path) -> None:
    root = tree(tmp_path / "apps", {"a/template.yaml": "x", "b/template.yaml": "y"})
    (root / "a" / "model.bin").write_bytes(os.urandom(2 * MAX))
    with pytest.raises(Refused, match=r"more than 1\.0 MiB; its largest files are a/model\.bin \(2\.0 MiB\)") as caught:
        pack(root, max_bytes=MAX)
    assert "RELAYCTL_MAX_BUNDLE_BYTES" in str(caught.value.help)


def test_an_existing_directory_stays_and_a_failed_one_leaves_nothing(tmp_path: Path) -> None:
    bundle = pack(tree(tmp_path / "apps", {"a/template.yaml": "x"}), max_bytes=MAX)
    (tmp_path / "out").mkdir()
    unpack(bundle.data, bundle.digest, tmp_path / "out", max_bytes=MAX)
    assert names_in(tmp_path / "out") == []
    with pytest.raises(BundleDamaged, match="is not what its digest"):
        unpack(bundle.data, "0" * 64, tmp_path / "kept" / "bad", max_bytes=MAX)
    data, digest = made({"a/x": b"x", "a/x/y": b"y"})
    with pytest.raises(FileFailure):
        unpack(data, digest, tmp_path / "kept" / "bad", max_bytes=MAX)
    assert list((tmp_path / "kept").iterdir()) == []


@pytest.mark.parametrize("name", ["../out", "/etc/x", "a/../../x", "a/..", "."])
def test_no_member_leaves_the_directory(tmp_path: Path, name: str) -> None:
    data, digest = made({name: b"x"})
    with pytest.raises(BundleDamaged, match="holds what no bundle may"):
        unpack(data, digest, tmp_path / "kept" / "out", max_bytes=MAX)
    assert list(tmp_path.rglob("*x*")) == []


def test_links_in_a_bundle_are_refused(tmp_path: Path) -> None:
    data, digest = made({"a": b"", "a/x": b"x"}, change="a")
    with pytest.raises(BundleDamaged, match="holds what no bundle may"):
        unpack(data, digest, tmp_path / "out", max_bytes=MAX)


@pytest.mark.parametrize(
    ("spans", "reason"), [("0,1", "holds what no bundle may"), ("a,b", "is no archive")], ids=["sparse", "no-numbers"]
)
def test_a_member_that_says_it_is_larger_than_its_bytes_is_not_read(tmp_path: Path, spans: str, reason: str) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content, headers in (
            (MARK, b"1\n", {}),
            ("a/x", b"x", {"GNU.sparse.map": spans, "GNU.sparse.size": str(1 << 50)}),
        ):
            info = tarfile.TarInfo(name)
            info.size, info.pax_headers = len(content), headers
            tar.addfile(info, io.BytesIO(content))
    raw = buffer.getvalue()
    with pytest.raises(BundleDamaged, match=reason):
        unpack(gzip.compress(raw), hashlib.sha256(raw).hexdigest(), tmp_path / "out", max_bytes=MAX)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-9], lambda data: b"x" + data, lambda _: b""], ids=["cut", "other", "none"]
)
def test_damaged_bytes_are_refused(tmp_path: Path, damage: object) -> None:
    data, digest = made({"a/x": b"x"})
    with pytest.raises(BundleDamaged):
        unpack(damage(data), digest, tmp_path / "out", max_bytes=MAX)  # type: ignore[operator]


def test_a_small_bundle_must_not_fill_a_disk(tmp_path: Path) -> None:
    data, digest = made({"a/zeros": bytes(150 << 20)})
    with pytest.raises(BundleDamaged, match="larger than this machine takes"):
        unpack(data, digest, tmp_path / "out", max_bytes=200 << 10)


@pytest.mark.parametrize(("mark", "error"), [(b"2\n", NewerFormat), (b"", BundleDamaged), (b"x", BundleDamaged)])
def test_the_version_is_looked_at_first(tmp_path: Path, mark: bytes, error: type[Exception]) -> None:
    data, digest = made({"a/x": b"x"}, mark=mark)
    with pytest.raises(error):
        unpack(data, digest, tmp_path / "out", max_bytes=MAX)


def test_any_bytes_but_a_bundle_are_refused(tmp_path: Path) -> None:
    raw = b"no tar at all" * 100
    with pytest.raises(BundleDamaged, match="no archive"):
        unpack(gzip.compress(raw), hashlib.sha256(raw).hexdigest(), tmp_path / "out", max_bytes=MAX)


def test_a_bundle_above_the_bound_of_this_machine_is_refused(tmp_path: Path) -> None:
    data, digest = made({"a/x": os.urandom(4096)})
    with pytest.raises(Refused, match=r"at most 1\.0 KiB are taken here") as caught:
        unpack(data, digest, tmp_path / "out", max_bytes=1024)
    assert "RELAYCTL_MAX_BUNDLE_BYTES" in str(caught.value.help)
