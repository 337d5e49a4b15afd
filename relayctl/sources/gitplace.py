"""Which repository, ref and folder a worker follows, checked before git sees any of it. There is no secret in them."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from relayctl.errors import FileFailure, UsageError, os_reason

_LONGEST_NAME = 20
"""No user name of a URL is longer; a token is."""
_MOST_TOKEN_BYTES = 65536
_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:(?P<user>[^/@]*(?:@[^/@]*)*)@)?(?P<rest>[^@]*)", re.IGNORECASE)
_SCP = re.compile(r"(?:(?P<user>[^/@:\s]+)@)?(?P<host>[^/@:\s]+):(?!//)(?P<path>\S+)")
_SCHEMES = ("https", "http", "ssh", "git", "file")
_WAY_OUT = "give access by an SSH key, a git credential helper, or a token in the file of RELAYCTL_GIT_TOKEN_FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class GitPlace:
    """A repository's URL, the ref to follow, the folder of the apps in it (`.` for all), and the file with a token."""

    url: str
    ref: str
    path: str
    token_file: Path | None = None

    @property
    def label(self) -> str:
        """What it is called in messages."""
        where = "" if self.path == "." else f":{self.path}"
        return f"git {self.shown_url} {self.ref}{where}"

    @property
    def shown_url(self) -> str:
        """The URL without a user."""
        found = _URL.fullmatch(self.url)
        return self.url if found is None else f"{found['scheme']}://{found['rest']}"

    def credentials(self) -> Mapping[str, str]:
        """What git is told by its environment to be let in with the token; read anew each time, as it may be rotated.

        Raises FileFailure where the file cannot be used.
        """
        if self.token_file is None:
            return {}
        token = read_secret_file(self.token_file, "RELAYCTL_GIT_TOKEN_FILE")
        found = _URL.fullmatch(self.url)
        assert found is not None
        pair = base64.b64encode(f"{found['user'] or 'x-access-token'}:{token}".encode()).decode()
        host = found["rest"].partition("/")[0]
        return {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"http.{found['scheme'].lower()}://{host}/.extraHeader",
            "GIT_CONFIG_VALUE_0": f"Authorization: Basic {pair}",
        }


def git_place(url: str, ref: str, path: str, token_file: Path | None = None) -> GitPlace:
    """The place, checked. UsageError for what cannot be followed; a URL that could hold a secret is not repeated."""
    found = _checked_url(url)
    if not re.fullmatch(r"[\w][\w./+@-]*", ref, re.ASCII) or ".." in ref or "@{" in ref or ref.endswith(("/", ".lock")):
        raise UsageError("--ref is not the name of a branch or tag, nor a commit", help="such as main or v1.4")
    folder = PurePosixPath(path or ".")
    if folder.is_absolute() or ".." in folder.parts or ":" in path or not path.isprintable():
        raise UsageError("--path leaves the repository", help="give the folder of the apps within it, such as apps")
    if token_file is not None and not _may_carry_token(found):
        raise UsageError(
            "RELAYCTL_GIT_TOKEN_FILE is for https URLs alone: elsewhere a token is useless, or can be read on its way",
            help="use an https URL, or unset it",
        )
    return GitPlace(url=url, ref=ref, path=str(folder), token_file=token_file)


def _checked_url(url: str) -> re.Match[str] | None:
    if not url.isprintable() or url.startswith("-") or "::" in url or not url.strip():
        raise UsageError(
            "--git is no URL that git can fetch from", help=f"use one with {', '.join(_SCHEMES)}, or a path"
        )
    found = _URL.fullmatch(url)
    if found is None:
        if "://" in url:
            # What cannot be taken apart could hold anything.
            raise UsageError(
                "--git is not a URL: a user or password in it is not written as a URL has it", help=_WAY_OUT
            )
        if _SCP.fullmatch(url) is None and not url.startswith(("/", "./", "../", "~/")):
            raise UsageError("--git is neither a URL nor a path", help="a path begins with / or ./")
        return None
    user = found["user"] or ""
    if ":" in user or "@" in user or re.search(r"[?&][^=&]*(password|token|secret)=", url, re.IGNORECASE):
        raise UsageError(
            "the URL of --git has a password in it, which logs and process lists would show", help=_WAY_OUT
        )
    if found["scheme"].lower() not in _SCHEMES:
        raise UsageError(f"--git: expected a URL with {', '.join(_SCHEMES)}", help="or a path")
    if found["scheme"].lower().startswith("http") and len(user) > _LONGEST_NAME:
        raise UsageError("the user in the URL of --git looks like a token, which process lists show", help=_WAY_OUT)
    return found


def _may_carry_token(url: re.Match[str] | None) -> bool:
    if url is None:
        return False
    is_here = re.match(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?(?:/|$)", url["rest"]) is not None
    return url["scheme"].lower() == "https" or (url["scheme"].lower() == "http" and is_here)


def read_secret_file(file: Path, variable: str) -> str:
    """The secret in a file, without white space around it. FileFailure, without what was found, where there is none."""
    try:
        with file.open("rb") as opened:
            text = opened.read(_MOST_TOKEN_BYTES).decode().strip()
    except OSError as error:
        reason = os_reason(error)
        raise FileFailure(f"the file of {variable} cannot be read: {reason}", help=f"look at {file}") from error
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable():
        raise FileFailure(
            f"the file of {variable} holds no secret: expected one line of text", help=f"look at {file}"
        ) from None
    return text
