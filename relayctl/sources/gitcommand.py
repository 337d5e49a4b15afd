"""Runs git: in an environment of its own, within time, and with everything it started ended when it must end.

It asks nobody anything, runs no hook, filter or monitor that a repository brings, and knows nothing of what is asked.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from relayctl.errors import SourceUnavailable
from relayctl.settings import mask_url

PASSED_ON = (
    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR",
    "SSH_AUTH_SOCK", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_ASKPASS", "GIT_CONFIG_GLOBAL",
    "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "KRB5CCNAME",
    "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
)  # fmt: skip
"""What git may know of this process's environment: how to reach and to be let in, and where its own settings lie."""
_ALWAYS = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
    "GIT_ALLOW_PROTOCOL": "https:http:ssh:git:file",
    "GIT_OPTIONAL_LOCKS": "0",
}
_OWN_SETTINGS = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.attributesFile=/dev/null", "gc.auto=0",
    "maintenance.auto=false", "fetch.recurseSubmodules=false", "submodule.recurse=false",
    "http.lowSpeedLimit=1000", "http.lowSpeedTime=30",
)  # fmt: skip
_BATCH_SSH = "ssh -oBatchMode=yes -oConnectTimeout=15"
_POLL_S = 0.1
_GRACE_S = 2.0
_MOST_OUTPUT = 1 << 20
_MOST_WORDS = 8192

IsOver = Callable[[], bool]
"""Whether nobody wants the answer any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What git said: its exit code (-1 where it was ended), its output, and its last words of trouble."""

    code: int
    output: str
    words: str


class GitCommand:
    """Runs git for one thread at a time."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """`environ` is this process's own, of which git gets what it needs."""
        known = {name: environ[name] for name in PASSED_ON if environ.get(name)}
        self._environ = {"GIT_SSH_COMMAND": _BATCH_SSH, **known, **_ALWAYS}
        if "GIT_SSH" in known and "GIT_SSH_COMMAND" not in known:
            del self._environ["GIT_SSH_COMMAND"]
        self.is_over: IsOver = lambda: False

    def run(
        self,
        *arguments: str,
        within_s: float,
        more: Mapping[str, str] | None = None,
        is_bare_of_settings: bool = False,
    ) -> Answer:
        """Run it. `more` goes into its environment; without the machine's settings no filter of theirs runs.

        Raises SourceUnavailable where there is no git, or no time left.
        """
        environ = self._environ | dict(more or {})
        if is_bare_of_settings:
            environ |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        settings = [word for setting in _OWN_SETTINGS for word in ("-c", setting)]
        try:
            process = subprocess.Popen(
                ["git", *settings, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environ,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise SourceUnavailable(
                "there is no git on PATH", help="install git, or serve a directory with --apps"
            ) from None
        except OSError as error:
            raise SourceUnavailable(f"git cannot be started ({error.strerror})") from error
        with process:
            try:
                return self._attend(process, time.monotonic() + within_s, within_s)
            finally:
                # Once it has ended its number may be another's, and what it left running is there on purpose.
                if process.returncode is None:
                    _end(process)

    def _attend(self, process: subprocess.Popen[bytes], until: float, within_s: float) -> Answer:
        """Read what it says until it has ended."""
        assert process.stdout is not None
        assert process.stderr is not None
        said: dict[int, bytes] = {process.stdout.fileno(): b"", process.stderr.fileno(): b""}
        with selectors.DefaultSelector() as selector:
            for number in said:
                selector.register(number, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(_POLL_S)
                if not ready and process.poll() is not None:
                    # Something that outlives it on purpose, as a connection that ssh shares, may keep the pipes open.
                    break
                for key, _ in ready:
                    block = os.read(key.fd, 65536)
                    if not block:
                        selector.unregister(key.fd)
                    said[key.fd] = (said[key.fd] + block)[-_MOST_OUTPUT:]
                if self.is_over():
                    raise SourceUnavailable("the worker is stopping")
                if time.monotonic() > until:
                    raise SourceUnavailable(f"git took longer than {within_s:.0f} s and was ended")
        try:
            code = process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            raise SourceUnavailable("git closed its output and did not end") from None
        output, words = (said[stream.fileno()] for stream in (process.stdout, process.stderr))
        return Answer(code=code, output=output.decode(errors="replace"), words=_harmless(words[-_MOST_WORDS:]))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what still lives of it and of what it started; asked first, since git then takes its lock files away."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
            if number is signal.SIGTERM and process.returncode >= 0:
                return


def _harmless(words: bytes) -> str:
    text = "".join(char if char.isprintable() or char == "\n" else " " for char in words.decode(errors="replace"))
    return mask_url(re.sub(r"(?i)(authorization:).*", r"\1 ***", text))
