"""The scripts that imported jobs run: what the other tool did around a command, written out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

_END = "RELAY_STDIN"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def is_variable(name: str) -> bool:
    """Whether a shell can set a variable of this name."""
    return _NAME.fullmatch(name) is not None


def around(
    command: str,
    *,
    interpreter: str,
    about: Sequence[str],
    variables: Mapping[str, str],
    stdin: str | None,
    setup: Sequence[str] = (),
) -> str:
    """A script that sets `variables` and runs `command` with `stdin`, or with an empty one in place of the event."""
    lines = [f"#!{interpreter}", *(f"# {line}" for line in about)]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    lines += [*setup, "{", _alone(command)]
    if stdin is None:
        lines.append("} < /dev/null")
    else:
        end = _END
        while end in stdin.splitlines():
            end += "_"
        lines += [f"}} << '{end}'", stdin, end]
    return "\n".join(lines) + "\n"


def _alone(command: str) -> str:
    """The command with a backslash at its end taken literally, as where nothing follows: here a line does."""
    is_joining = (len(command) - len(command.rstrip("\\"))) % 2
    return command + "\\" * is_joining


def quoted(words: Sequence[str]) -> str:
    """A command of these very words."""
    return shlex.join(words)
