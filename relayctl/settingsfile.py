"""`relayctl.toml` as a text for each key, with the line it stands on. It judges no value and follows no variable."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relayctl.errors import UsageError, os_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A value as it would be written on a command line, and `file:line`."""

    text: str
    place: str


def entries_of(file: Path, switches: Mapping[str, bool]) -> dict[str, Entry] | None:
    """What a settings file says, by key; None where there is none. `switches`: each key, and whether it is one."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {_reason(error)}") from None
    found = {}
    for key, value in _parsed(file, text).items():
        place = f"{file}:{_line_of(key, text)}"
        found[key] = Entry(text=_text(place, key, value, switches), place=place)
    return found


def _parsed(file: Path, text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # The parser's words can repeat a piece of the file, so only the place is kept.
        at = re.search(r"line ([0-9]+), column ([0-9]+)", str(error))
        place, way_out = f"{file}:{text.count(chr(10)) + 1}", "complete what was begun: a quote, a bracket or a value"
        if at is not None:
            place, way_out = f"{file}:{at[1]}:{at[2]}", 'write  key = "value"   with texts in quotes'
        raise UsageError(f"{place}: not valid TOML", help=way_out) from None


def _line_of(key: str, text: str) -> int:
    """Where a key of the file stands, or the table of that name."""
    import tomllib

    lines = text.splitlines(keepends=True)
    spelt = re.compile(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[]=.]""")
    for number, line in enumerate(lines, start=1):
        if not spelt.match(line):
            continue
        try:
            # Inside a text of several lines the part before it does not parse.
            tomllib.loads("".join(lines[: number - 1]))
        except tomllib.TOMLDecodeError:
            continue
        return number
    return 1


def _text(place: str, key: str, value: object, switches: Mapping[str, bool]) -> str:
    if isinstance(value, dict) and not switches.keys().isdisjoint(value):
        raise UsageError(f'{place}: unknown table "{key}"', help=f"settings stand at the top: leave out [{key}]")
    if key not in switches:
        close = closest(key, switches)
        hint = f'did you mean "{close}"?' if close else f"known keys: {', '.join(switches)}"
        raise UsageError(f'{place}: unknown key "{key}"', help=hint)
    if isinstance(value, bool) and switches[key]:
        return str(value).lower()
    if isinstance(value, bool) or not isinstance(value, str | int):
        way_out = "write true or false" if switches[key] else 'write a number, or a text in quotes, such as "20s"'
        raise UsageError(f"{place}: {key}: expected a string or a number, found {_kind(value)}", help=way_out)
    return str(value)


def _kind(value: object) -> str:
    return {dict: "a table", list: "a list", bool: "true or false", float: "a fraction"}.get(type(value), "a date")


def closest(text: str, known: Iterable[str]) -> str | None:
    """The known word most like a text, or None where none is near."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(text, list(known), n=1)), None)


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return os_reason(error) if isinstance(error, OSError) else "it is not UTF-8"
