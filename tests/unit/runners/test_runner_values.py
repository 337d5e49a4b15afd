"""The pure parts: verdicts, environment, limits, builds, frames."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest

from relayctl.core.model import App, Isolation, Resources
from relayctl.core.names import AppName
from relayctl.errors import SecretMissing
from relayctl.runners.build import Build
from relayctl.runners.channel import Channel, ChannelBroken
from relayctl.runners.environ import base_environ, of_child, resolve_secrets
from relayctl.runners.invocation import Outcome
from relayctl.runners.limits import unenforced
from relayctl.runners.process import Exit
from relayctl.runners.verdict import of_answer, of_exit, shown_seconds

BUILD = Build(app="a", revision="r", directory=Path("/nowhere"), runtime="python", secrets=(("KEY", "key"),))


def test_the_base_is_small() -> None:
    base = base_environ(
        {"PATH": "/bin", "HOME": "/h", "RELAYCTL_REDIS_URL": "redis://x", "LANG": "", "PYTHONPATH": "/p"}
    )
    assert base == {"PATH": "/bin", "HOME": "/h", "LANG": "C.UTF-8"}


def test_the_template_goes_before_the_base() -> None:
    build = Build(app="a", revision="r", directory=Path("/x"), runtime="python", env=(("PATH", "/own"),))
    assert of_child({"PATH": "/bin"}, build, "t.1") == {"PATH": "/own", "RELAY_CHILD": "t.1"}


def test_secrets_by_reference() -> None:
    assert resolve_secrets(BUILD, {"key": "value"}.__getitem__) == {"KEY": "value"}
    with pytest.raises(SecretMissing, match="key for KEY holds a NUL"):
        resolve_secrets(BUILD, lambda _: "a\0b")


def test_build_of_an_app() -> None:
    app = App(name=AppName("shop"), runtime="exec", concurrency=3, isolation=Isolation.FRESH, env=(("A", "1"),))
    build = Build.of(app, Path("/apps/shop"), "r7")
    assert (build.app, build.runtime, build.concurrency, build.isolation) == ("shop", "exec", 3, Isolation.FRESH)
    assert (build.revision, build.env, build.handlers) == ("r7", (("A", "1"),), ())


def test_what_is_not_enforced() -> None:
    assert unenforced(Resources(memory=1)) == ()
    assert unenforced(Resources(memory=1, cpus=0.5, pids=3)) == ("cpus", "pids")


@pytest.mark.parametrize(
    ("status", "is_program", "outcome"),
    [
        (Exit(code=0, signal=None), True, Outcome.SUCCEEDED),
        (Exit(code=0, signal=None), False, Outcome.FAILED),
        (Exit(code=2, signal=None), True, Outcome.FAILED),
        (Exit(code=None, signal=11), True, Outcome.FAILED),
        (Exit(code=None, signal=9), False, Outcome.LOST),
        (Exit(code=None, signal=200), False, Outcome.FAILED),
    ],
)
def test_exits(status: Exit, is_program: bool, outcome: Outcome) -> None:
    verdict = of_exit(status, is_program=is_program)
    assert (verdict.outcome, verdict.signal) == (outcome, status.signal)
    assert bool(verdict.reason) is (outcome is not Outcome.SUCCEEDED)


def test_answers_and_words() -> None:
    assert of_answer(True, None, "").outcome is Outcome.SUCCEEDED
    assert of_answer(False, 3, "exit code 3") == (Outcome.FAILED, "exit code 3", 3, None)
    assert [shown_seconds(value) for value in (6.0, 0.5, 3600.0)] == ["6s", "0.5s", "3600s"]


@pytest.mark.parametrize("sent", [b"\xff\xff\xff\xff", struct.pack(">I", 2) + b"{}", struct.pack(">I", 3) + b"[1,"])
def test_frames_are_not_trusted(sent: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(sent)
        with pytest.raises(ChannelBroken):
            Channel(ours).receive()


def test_frames_in_pieces_and_in_bunches() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        channel = Channel(ours)
        data = b"".join(struct.pack(">I", len(text)) + text for text in (b'["a",1]', b'["b"]'))
        found = []
        for start in range(0, len(data), 5):
            theirs.sendall(data[start : start + 5])
            found += channel.receive()
        assert found == [["a", 1], ["b"]]
        assert channel.receive() == [] and channel.is_open
        theirs.close()
        assert channel.receive() == [] and not channel.is_open
