"""Runs git: in an environment of its own, within time, and with every setting that a repository could bring left out.

It asks nobody anything, runs no hook, filter or monitor that a repository brings, and knows nothing of what is asked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from relayctl.errors import SourceUnavailable, os_reason
from relayctl.host.cycle.command import Why, run_command
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
            finish = run_command(
                ["git", *settings, *arguments], environ=environ, within_s=within_s, is_over=self.is_over
            )
        except FileNotFoundError:
            raise SourceUnavailable(
                "there is no git on PATH", help="install git, or serve a directory with --apps"
            ) from None
        except OSError as error:
            raise SourceUnavailable(f"git cannot be started ({os_reason(error)})") from error
        if finish.why is Why.UNWANTED:
            raise SourceUnavailable("the worker is stopping")
        if finish.why is Why.OVERDUE:
            raise SourceUnavailable(f"git took longer than {within_s:.0f} s and was ended")
        if finish.why is Why.MUTE:
            raise SourceUnavailable("git closed its output and did not end")
        words = _harmless(finish.errors[-_MOST_WORDS:])
        return Answer(code=finish.code, output=finish.output.decode(errors="replace"), words=words)


def _harmless(words: bytes) -> str:
    text = "".join(char if char.isprintable() or char == "\n" else " " for char in words.decode(errors="replace"))
    return mask_url(re.sub(r"(?i)(authorization:).*", r"\1 ***", text))
