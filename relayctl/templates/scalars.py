"""Plain scalars by the YAML 1.2 core schema, from their raw text. It does not know what a template expects where."""

from __future__ import annotations

import math
import re
from functools import lru_cache

Scalar = str | int | float | bool | None

_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
_OCTAL = re.compile(r"0o[0-7]+", re.ASCII)
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII)
_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_OLD_BOOLEAN = re.compile(r"(?:y|Y|n|N|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF)", re.ASCII)
_OLD_NUMBER = re.compile(
    r"[-+]?0[0-9]+|[-+]?[0-9][0-9_]*_[0-9_]*(?:\.[0-9_]*)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|0o[0-7]+",
    re.ASCII,
)
_MAX_DIGITS = 300
_NOT_SPECIAL = frozenset("abcdeghijklmopqrsuvwxyzABCDEGHIJKLMOPQRSUVWXYZ/_\"'")


class NotFinite(ValueError):
    """A number that JSON cannot carry: infinite, not a number, or with too many digits."""


@lru_cache(maxsize=4096)
def resolve(text: str) -> Scalar:
    """The value of a plain scalar. Numbers that JSON cannot carry raise NotFinite."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in _NOT_SPECIAL:
        return text
    if _INTEGER.fullmatch(text):
        return _integer(text, 10)
    if _FLOAT.fullmatch(text):
        return _finite(float(text))
    if _OCTAL.fullmatch(text):
        return _integer(text[2:], 8)
    if _HEXADECIMAL.fullmatch(text):
        return _integer(text[2:], 16)
    if _INFINITE.fullmatch(text):
        raise NotFinite(text)
    return text


def _integer(digits: str, radix: int) -> int:
    if len(digits) > _MAX_DIGITS:
        raise NotFinite("too many digits")
    return int(digits, radix)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise NotFinite("too large")
    return value


def loses_text(text: str, value: object) -> bool:
    """Whether the number or boolean `value` cannot be written back as exactly `text`."""
    if isinstance(value, bool):
        return text not in ("true", "false")
    if isinstance(value, int | float):
        return repr(value) != text
    return False


def is_old_boolean(text: str) -> bool:
    """Whether YAML 1.1 readers take this plain text for a boolean."""
    return _OLD_BOOLEAN.fullmatch(text) is not None


def is_old_number(text: str) -> bool:
    """Whether YAML 1.1 readers take this plain text for another number than YAML 1.2 readers do."""
    return len(text) <= 64 and _OLD_NUMBER.fullmatch(text) is not None and text not in ("0", "-0", "+0")
