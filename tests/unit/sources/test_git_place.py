"""What may be followed, what is refused without being repeated, and how a token travels."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from relayctl.errors import FileFailure, UsageError
from relayctl.sources.gitplace import git_place

SECRET = "hunter2-0123456789-abcdef"


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/team/jobs.git",
        "https://alice@github.com/team/jobs.git",
        "http://127.0.0.1:3000/x",
        "ssh://git@example.com:2222/team/jobs.git",
        "git@github.com:team/jobs.git",
        "file:///srv/jobs.git",
        "/srv/jobs.git",
        "./jobs.git",
    ],
)
def test_what_git_can_fetch_from(url: str) -> None:
    assert git_place(url, "main", "apps").url == url


@pytest.mark.parametrize(
    "url",
    [
        f"https://alice:{SECRET}@github.com/x",
        f"https://:{SECRET}@github.com/x",
        f"https://{SECRET}@github.com/x",
        f"https://x/y?private_token={SECRET}",
        f"https://a:{SECRET}/@b@c/x",
        f"https://a@{SECRET}@c/x",
        f"ext::sh -c {SECRET}",
        f"--upload-pack={SECRET}",
        f"ftp://x/{SECRET}",
        f"{SECRET}",
        f"https://x/{SECRET}\n",
        "",
    ],
)
def test_what_cannot_be_followed_or_could_be_a_secret_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        git_place(url, "main", "apps")
    assert SECRET not in caught.value.message + (caught.value.help or "")


@pytest.mark.parametrize("ref", ["-x", "a..b", "a b", "", "a:b", "a^", "x.lock", "a@{1}", "ü", "a\n"])
def test_a_ref_is_a_name(ref: str) -> None:
    with pytest.raises(UsageError):
        git_place("/x", ref, "apps")


@pytest.mark.parametrize("path", ["../x", "/etc", "a/../../b", "a:b", "a\nb"])
def test_a_path_stays_in_the_repository(path: str) -> None:
    with pytest.raises(UsageError):
        git_place("/x", "main", path)


@pytest.mark.parametrize(
    ("path", "shown"), [("apps/", "git /x main:apps"), (".", "git /x main"), ("a/b", "git /x main:a/b")]
)
def test_what_it_is_called(path: str, shown: str) -> None:
    assert git_place("/x", "main", path).label == shown
    assert "alice" not in git_place("https://alice@h/x", "main", path).label


def test_a_token_goes_to_its_host_alone_and_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "token"
    place = git_place("https://github.com/x.git", "main", "apps", file)
    for token in (SECRET, "other"):
        file.write_text(f"{token}\n")
        told = place.credentials()
        assert told["GIT_CONFIG_KEY_0"] == "http.https://github.com/.extraHeader"
        pair = told["GIT_CONFIG_VALUE_0"].removeprefix("Authorization: Basic ")
        assert base64.b64decode(pair).decode() == f"x-access-token:{token}"
    assert git_place("/x", "main", "apps").credentials() == {}


@pytest.mark.parametrize("content", [b"", b"  \n", b"two\nlines", b"\xff\xfe"])
def test_a_file_without_a_token_is_said_and_not_shown(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(FileFailure) as caught:
        git_place("https://h/x", "main", "apps", file).credentials()
    assert "two" not in caught.value.message
    with pytest.raises(FileFailure):
        git_place("https://h/x", "main", "apps", tmp_path / "none").credentials()


@pytest.mark.parametrize("url", ["http://example.com/x", "ssh://git@h/x", "/srv/x", "git@h:x"])
def test_a_token_is_given_to_no_place_where_it_could_be_read(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError):
        git_place(url, "main", "apps", tmp_path / "token")
