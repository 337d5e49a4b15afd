"""What a command works with: settings, clock, streams and how to hand over its output. It computes nothing itself."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from relayctl import settings
from relayctl.cli import exits
from relayctl.cli.nearest import closest
from relayctl.cli.options import given
from relayctl.errors import FileFailure, UsageError, os_reason

Renderings = Mapping[str, Callable[[], str]]
"""Output by the name of its format; the first is the default, and only what is asked for is computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How text may look on the stream it goes to."""

    width: int
    is_unicode: bool
    is_colored: bool


class Desk:
    """One command's surroundings. Settings are read when first asked for, so that `--help` needs none."""

    def __init__(self, context: Any) -> None:
        self._given = given(context)

    @property
    def is_quiet(self) -> bool:
        """`-q`: no remarks on stderr."""
        return bool(self._given.get("quiet"))

    @property
    def is_verbose(self) -> bool:
        """`-v`."""
        return bool(self._given.get("verbose"))

    @property
    def may_ask(self) -> bool:
        """Whether a person is there to answer."""
        return not self._given.get("no_input") and sys.stdin.isatty()

    @cached_property
    def settings(self) -> settings.Settings:
        """The settings in force; their warnings are printed once."""
        config = self._given.get("config")
        flags = {key: str(value) for key, value in self._given.items() if key in settings.SETTINGS}
        found = settings.load(flags, config=Path(config) if config else None)
        for warning in found.warnings:
            self.remark(f"warning: {warning}")
        return found

    def now(self, given_at: str | None = None) -> datetime:
        """The time a command reckons from, in whole seconds: the clock's, or what `--from` says."""
        from relayctl.cli.when import parse_instant
        from relayctl.host.clock import SystemClock

        now = SystemClock().now().replace(microsecond=0)
        return now if given_at is None else parse_instant(given_at, now)

    @cached_property
    def look(self) -> Look:
        """Width, symbols and colour for stdout."""
        facts = settings.terminal()
        is_tty = "output_file" not in self._given and sys.stdout.isatty()
        width = facts.columns or (shutil.get_terminal_size((100, 24)).columns if is_tty else 100)
        choice = self.settings.color
        is_colored = choice == "always" or (choice == "auto" and is_tty and facts.allows_color)
        return Look(width=max(width, 40), is_unicode=facts.is_unicode, is_colored=is_colored)

    def remark(self, *lines: str) -> None:
        """Say something on stderr, unless quiet."""
        if not self.is_quiet:
            self.complain(*lines)

    def complain(self, *lines: str) -> None:
        """Say what went wrong on stderr."""
        exits.complain(*(exits.harmless(line) for line in lines))

    def format(self, renderings: Renderings) -> str:
        """The format asked for."""
        names = list(renderings)
        wanted = str(self._given.get("format") or names[0])
        if wanted not in renderings:
            close = closest(wanted, names)
            hint = f'did you mean "{close}"?' if close else None
            raise UsageError(f'no format "{wanted}" here; {_there(names)}', help=hint)
        return wanted

    @property
    def writes_files(self) -> bool:
        """Whether the output is asked for in a file."""
        return bool(self._given.get("output_file") or self._given.get("json_file"))

    def tell(self, text: str, *, is_json: bool = False) -> None:
        """Print a piece of an output that goes on."""
        _print(text if self.look.is_unicode else _plain(text, is_json=is_json))

    def deliver(self, renderings: Renderings) -> None:
        """Print the output in the format asked for, or write it to the files asked for."""
        wanted = self.format(renderings)
        text = renderings[wanted]()
        if json_file := self._given.get("json_file"):
            if "json" not in renderings:
                raise UsageError("--json-file: this command has no JSON output")
            _write_file(Path(json_file), renderings["json"]())
        if output_file := self._given.get("output_file"):
            _write_file(Path(output_file), text)
        else:
            _print(text if self.look.is_unicode else _plain(text, is_json=wanted.startswith("json")))


def write_private(path: Path, text: str) -> None:
    """Write a file that its owner alone may read, as a whole or not at all; FileFailure where it cannot be written."""
    from relayctl.host.wholefile import write_whole

    try:
        if path.exists() and not path.is_file():
            path.write_bytes(text.encode())
        else:
            # What a link leads to is replaced, and the link stays.
            write_whole(Path(os.path.realpath(path)), text.encode())
    except OSError as error:
        raise FileFailure(f"{path}: cannot be written: {os_reason(error)}") from None


def _there(names: list[str]) -> str:
    return f"there is only {names[0]}" if len(names) == 1 else f"there are {', '.join(names)}"


def to_json(value: Any) -> str:
    """A document for programs, indented and in the order given."""
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def _print(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise FileFailure(f"the output cannot be written: {os_reason(error)}") from None


def _plain(text: str, *, is_json: bool) -> str:
    """The text in ASCII: symbols by their plain counterparts, anything else by an escape."""
    if is_json:
        # Outside ASCII there are only characters of strings, and for them JSON has escapes of its own.
        return "".join(char if char.isascii() else json.dumps(char)[1:-1] for char in text)
    return text.translate(_PLAIN).encode("ascii", "backslashreplace").decode()


_PLAIN = str.maketrans({"·": "-", "→": "->", "…": "...", "–": "-", "≈": "~", "×": "x", "≤": "<=", "≥": ">="})  # noqa: RUF001


def _write_file(path: Path, text: str) -> None:
    """Write beside the file and move into place, so that a reader sees the old or the new one.

    Devices, pipes and links (`/dev/stdout` is one) are written through: to move a file there would destroy them.
    """
    from relayctl.host.wholefile import write_whole

    data = text.encode("utf-8", "backslashreplace")
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            path.write_bytes(data)
        else:
            write_whole(path, data, mode=0o666 & ~_umask())
    except OSError as error:
        raise FileFailure(f"{path}: cannot be written: {os_reason(error)}") from None


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
