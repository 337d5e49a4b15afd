"""The one rule for names of apps, schedules and services.

Names are never sanitised, only refused: a name is a key in the broker, a path on disk and a label in metrics.
"""

from __future__ import annotations

import re
from typing import NewType

AppName = NewType("AppName", str)
ScheduleName = NewType("ScheduleName", str)
ServiceName = NewType("ServiceName", str)

MAX_NAME_LENGTH = 63
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*", re.ASCII)
_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")


def split_name(text: str) -> tuple[str, str]:
    """App and item of `app/item`; the item is empty where there is none."""
    app, _, item = text.partition("/")
    return app, item


def is_name(text: str) -> bool:
    """Whether `text` may name an app, a schedule or a service."""
    return len(text) <= MAX_NAME_LENGTH and _NAME.fullmatch(text) is not None and not text.endswith(".")


def why_not_a_name(text: str) -> str | None:
    """What is wrong with `text` as a name, in words, or None when it is fine."""
    if is_name(text):
        return None
    if not text:
        return "it is empty"
    if len(text) > MAX_NAME_LENGTH:
        return f"it has {len(text)} characters, at most {MAX_NAME_LENGTH} are allowed"
    for char in text:
        if char not in _ALLOWED:
            return f"{_shown(char)} is not allowed; use a-z, 0-9, '.', '_' and '-'"
    if text.endswith("."):
        return "it ends with a dot"
    return f"it starts with {text[0]!r}; the first character is a letter or a digit"


def legal_form(text: str) -> str | None:
    """A legal name close to `text`, offered in an error message; None when nothing is left of it."""
    folded = re.sub(r"[^a-z0-9._-]+", "-", text.lower()).lstrip("._-")[:MAX_NAME_LENGTH].rstrip(".-")
    return folded if is_name(folded) else None


def _shown(char: str) -> str:
    return repr(char) if char.isprintable() else f"the control character {char!a}"
