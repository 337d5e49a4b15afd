"""The environment of a handler: built from a small base, never inherited.

The one place in this room that reads the worker's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from relayctl.errors import SecretMissing
from relayctl.runners.build import Build

PASSED_ON = ("PATH", "HOME", "LANG", "TZ")
_OF_BUILDERS = (
    "PIP_", "UV_", "NPM_", "NODE_", "SSL_CERT_", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY",
    "ALL_PROXY", "NO_PROXY", "XDG_", "NETRC", "GIT_", "SSH_", "TMPDIR", "LC_", "CC", "CXX", "CFLAGS", "CXXFLAGS",
    "CPPFLAGS", "LDFLAGS", "PKG_CONFIG", "CARGO_", "RUSTUP_", "RUSTFLAGS", "MAKEFLAGS",
)  # fmt: skip
"""What installers and compilers are told by; names that end in "_" stand for all that begin so."""
MARK = "RELAY_CHILD"
"""Marks every descendant of a child, so that one which left its session is still recognised."""


def base_environ(source: Mapping[str, str] | None = None) -> dict[str, str]:
    """What every handler gets of the worker's environment (or of `source`)."""
    own = os.environ if source is None else source
    base = {"PATH": os.defpath, "LANG": "C.UTF-8"}
    base.update((name, own[name]) for name in PASSED_ON if own.get(name))
    return base


def builder_environ(source: Mapping[str, str] | None = None) -> dict[str, str]:
    """What an installer gets: also where packages come from, with credentials, but nothing of relayctl's own."""
    own = os.environ if source is None else source
    found = {name: value for name, value in own.items() if _is_for_builders(name)}
    return base_environ(source) | found


def _is_for_builders(name: str) -> bool:
    word = name.upper()  # npm and proxies know small letters too
    return any(word.startswith(known) if known.endswith("_") else word == known for known in _OF_BUILDERS)


def of_child(base: Mapping[str, str], build: Build, mark: str) -> dict[str, str]:
    """What holds for every run of a child; secrets are no part of it."""
    own = {} if build.environment is None else build.environment.variables(base.get("PATH", os.defpath))
    return {**base, **own, **dict(build.env), MARK: mark}


def resolve_secrets(build: Build, resolve: Callable[[str], str]) -> dict[str, str]:
    """The secrets of one run by variable; raises SecretMissing, also for a value that no environment can hold."""
    found = {}
    for name, reference in build.secrets:
        value = resolve(reference)
        if "\0" in value:
            raise SecretMissing(
                f"secret {reference} for {name} holds a NUL byte, which no environment variable can carry"
            )
        found[name] = value
    return found
