"""What is said of a build that failed: the cause in one line, the last lines, and never a credential."""

from __future__ import annotations

import time

import pytest

from relayctl.runners.environ import base_environ, builder_environ
from relayctl.runners.environments.credentials import Blackout
from relayctl.runners.environments.diagnosis import MOST_LINES, last_of, reason_of

UV = """  × No solution found when resolving dependencies:
  ╰─▶ Because nope was not found in the package registry and you require
      nope, we can conclude that your requirements are unsatisfiable."""
PIP = """Looking in indexes: https://index.example/simple
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<x>: Failed to establish a new \
connection: [Errno 111] Connection refused')': /simple/nope/
ERROR: Could not find a version that satisfies the requirement nope (from versions: none)
ERROR: No matching distribution found for nope

[notice] A new release of pip is available: 24.0 -> 26.1"""
NPM = """npm error code ENOTFOUND
npm error network request to https://registry.example/tiny failed, reason: getaddrinfo ENOTFOUND registry.example
npm error A complete log of this run can be found in: /home/app/.npm/_logs/x.log"""
CONCLUSION = "we can conclude that your requirements are unsatisfiable."
NEWER_UV = f"""Using Python 3.11.7 environment at: place
error: No solution found when resolving dependencies
  cause: Because nope was not found, {CONCLUSION}

hint: Packages were unavailable because index lookups were disabled"""
REFUSAL = "network request to https://registry.example/tiny failed, reason: getaddrinfo ENOTFOUND registry.example"
DISK = "error: failed to copy file\n  Caused by: No space left on device (os error 28)"


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (UV, f"Because nope was not found in the package registry and you require nope, {CONCLUSION}"),
        (NEWER_UV, f"No solution found when resolving dependencies: Because nope was not found, {CONCLUSION}"),
        (PIP, "the package index cannot be reached: No matching distribution found for nope"),
        (NPM, f"the package index cannot be reached: {REFUSAL}"),
        (DISK, "the disk is full: failed to copy file: No space left on device (os error 28)"),
        ("ERROR: HTTP error 401 at x", "the package index refuses the builder's credentials: HTTP error 401 at x"),
        ("something\nelse\n\n", "else"),
        ("", "exit code 2"),
    ],
)
def test_the_cause_is_one_line(output: str, reason: str) -> None:
    assert reason_of(output.splitlines(), "exit code 2") == reason


def test_the_last_lines_say_something() -> None:
    assert last_of(PIP.splitlines())[-1] == "ERROR: No matching distribution found for nope"
    assert last_of([str(number) for number in range(100)]) == tuple(str(n) for n in range(100 - MOST_LINES, 100))


def test_no_credential_is_shown_wherever_it_came_from() -> None:
    environ = {"PIP_INDEX_URL": "https://bob:hunter%2122@index.example/s", "NPM_TOKEN": "npm_abcdef", "PIP_X": "plain"}
    files = [b"--index-url https://tok3n-only@other.example/simple\n", b"//registry/:_authToken=zyxw9876\n"]
    blackout = Blackout(environ, files)
    for line in (
        b"Looking in indexes: https://bob:hunter%2122@index.example/s",
        b"password hunter!22 was refused",
        b"token npm_abcdef, zyxw9876 and tok3n-only",
        b"GET https://new:secret@third.example/?api_token=abc&x=1",
        b"GET https://new:a@secret@third.example/?q=1?key=abc",
    ):
        shown = blackout.line(line)
        assert "***" in shown
        assert not [word for word in ("hunter", "abcdef", "zyxw", "tok3n", "secret", "=abc") if word in shown]
    assert blackout.line(b"\x1b[31mplain\x1b[0m index.example\r") == "plain index.example"


def test_a_line_of_any_kind_costs_no_time() -> None:
    blackout, began = Blackout({}), time.perf_counter()
    for word in (b"?", b"?key", b"key", b"://", b"://a@"):
        blackout.line(b"?" + word * (12_000 // len(word)))
    assert time.perf_counter() - began < 5, "the interpreter is locked meanwhile, and with it the whole worker"


def test_installers_are_told_of_indexes_and_not_of_the_broker_and_handlers_of_neither() -> None:
    own = {
        "PATH": "/bin", "HOME": "/root", "RELAYCTL_REDIS_URL": "redis://:secret@broker", "REDIS_URL": "redis://x",
        "PIP_INDEX_URL": "https://t@index", "UV_INDEX_NAME_PASSWORD": "t", "NPM_TOKEN": "t", "npm_config_registry": "r",
        "https_proxy": "http://proxy", "SSL_CERT_FILE": "/certs", "CC": "gcc", "CCX": "no", "AWS_SECRET_ACCESS_KEY": "s",
    }  # fmt: skip
    got = builder_environ(own)
    assert set(got) - {"LANG"} == set(own) - {"RELAYCTL_REDIS_URL", "REDIS_URL", "CCX", "AWS_SECRET_ACCESS_KEY"}
    assert set(base_environ(own)) == {"PATH", "HOME", "LANG"}
