"""Secrets: where a reference is looked up, what is refused, and that no text gives a value away."""

from __future__ import annotations

import os
import stat

import pytest

from relayctl.errors import FileFailure, RelayError, SecretMissing, UsageError
from relayctl.host.secrets import SecretStore


@pytest.fixture
def store(tmp_path):
    (tmp_path / "mount").mkdir()
    return SecretStore(tmp_path / "mount", tmp_path / "store")


def test_the_mount_comes_first(store, tmp_path):
    store.set("database-url", "local")
    assert store.resolve("database-url") == "local"
    (tmp_path / "mount" / "database-url").write_text("mounted\n")
    assert store.resolve("database-url") == "mounted"


def test_a_changed_value_is_seen_at_once(store):
    store.set("token", "old")
    store.set("token", "new")
    assert store.resolve("token") == "new"


@pytest.mark.parametrize(
    ("written", "read"), [(b"a", "a"), (b"a\n", "a"), (b"a\n\n", "a\n"), (b"a\r\n", "a"), (b" a ", " a "), (b"", "")]
)
def test_one_trailing_newline_goes(store, tmp_path, written, read):
    (tmp_path / "mount" / "x").write_bytes(written)
    assert store.resolve("x") == read


def test_a_missing_one_names_itself_and_the_way_out(store):
    with pytest.raises(SecretMissing, match="database-url") as caught:
        store.resolve("database-url")
    assert "relayctl secret set database-url" in caught.value.help


@pytest.mark.parametrize("name", ["", "..", ".hidden", "../x", "a/b", "A", "a b", "x\n", "a\0", "-a", "a" * 64, "a."])
def test_what_is_no_name_is_refused_unseen(store, name):
    for act in (store.resolve, store.remove, lambda bad: store.set(bad, "v")):
        with pytest.raises(UsageError) as caught:
            act(name)
        assert not name or len(name) < 3 or name not in caught.value.message


def test_the_store_is_the_owners_alone(store, tmp_path):
    store.set("x", "v")
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "store" / "x").stat().st_mode) == 0o600
    assert os.listdir(tmp_path / "store") == ["x"]


def test_names_and_removal(store, tmp_path):
    store.set("b", "v")
    (tmp_path / "mount" / "a").write_text("v")
    (tmp_path / "mount" / "..data").mkdir()
    assert store.names() == ["a", "b"]
    assert store.remove("b") is True
    assert store.remove("b") is False
    assert store.names() == ["a"]


def test_a_kubernetes_mount_is_read_through_its_links(store, tmp_path):
    mount = tmp_path / "mount"
    (mount / "..2026").mkdir()
    (mount / "..2026" / "key").write_text("v1")
    (mount / "..data").symlink_to("..2026")
    (mount / "key").symlink_to("..data/key")
    assert store.resolve("key") == "v1"


@pytest.mark.parametrize("content", [b"hunter2\xff", b"hunter2\0", b"hunter2" * 200_000])
def test_an_unusable_value_is_an_error_without_it(store, tmp_path, content):
    (tmp_path / "mount" / "x").write_bytes(content)
    with pytest.raises(FileFailure, match="secret x") as caught:
        store.resolve("x")
    error: BaseException | None = caught.value
    while error is not None:
        assert "hunter2" not in repr(error)
        error = error.__cause__


def test_a_pipe_or_directory_does_not_hang(store, tmp_path):
    os.mkfifo(tmp_path / "mount" / "pipe")
    (tmp_path / "mount" / "dir").mkdir()
    for name in ("pipe", "dir"):
        with pytest.raises(RelayError, match=name):
            store.resolve(name)


def test_without_a_mount_only_the_store_counts(tmp_path):
    store = SecretStore(None, tmp_path / "store")
    with pytest.raises(SecretMissing):
        store.resolve("x")
    store.set("x", "v")
    assert store.resolve("x") == "v"
