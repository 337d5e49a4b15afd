"""Which keys a template may have on which level, taken from the schema, and the key somebody probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from relayctl.templates.document import PathPart
from relayctl.templates.schema import template_schema

NOUNS = {
    "": "template",
    "schedules": "schedule",
    "events": "event rule",
    "services": "service",
    "resources": "resources",
    "dst": "dst",
    "check": "check",
}
"""Levels and how they are called in "not a schedule setting"."""
_HOMES = {
    "": "at the top of the template",
    "schedules": "inside a schedules item",
    "events": "inside an events item",
    "services": "inside a services item",
    "resources": "inside resources",
    "dst": "inside dst",
    "check": "inside check",
}
_CLOSE = 0.65
_SYNONYMS = {
    ("schedules", "tz"): "timezone",
    ("schedules", "zone"): "timezone",
    ("schedules", "location"): "timezone",
    ("schedules", "schedule"): "cron",
    ("schedules", "expression"): "cron",
    ("schedules", "crontab"): "cron",
    ("schedules", "interval"): "every",
    ("schedules", "command"): "handler",
    ("schedules", "function"): "handler",
    ("schedules", "payload"): "input",
    ("schedules", "args"): "input",
    ("schedules", "concurrency_policy"): "overlap",
    ("services", "cmd"): "command",
    ("events", "filter"): "pattern",
    ("events", "function"): "handler",
    ("", "environment"): "env",
}
"""Keys of other schedulers, by level, and what they are called here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """What an unknown key probably was: `key` on this level, or `key` on another `level`, whose place `home` tells."""

    key: str | None = None
    home: str | None = None
    level: str = ""


@lru_cache(maxsize=1)
def levels() -> dict[str, tuple[str, ...]]:
    """Level to the keys it knows, in the schema's order."""
    document = template_schema()
    kinds = document["definitions"]
    return {
        "": tuple(document["properties"]),
        "schedules": tuple(kinds["schedule"]["properties"]),
        "events": tuple(kinds["event"]["properties"]),
        "services": tuple(kinds["service"]["properties"]),
        "resources": tuple(document["properties"]["resources"]["properties"]),
        "dst": tuple(kinds["schedule"]["properties"]["dst"]["properties"]),
        "check": tuple(kinds["service"]["properties"]["check"]["properties"]),
    }


def level_of(path: Sequence[PathPart]) -> str:
    """The level of the mapping at a path."""
    return next((part for part in reversed(path) if isinstance(part, str)), "")


def meant_by(key: str, level: str) -> Meant:
    """The known key behind an unknown one, on this level or another."""
    own = levels()[level]
    if (known := _SYNONYMS.get((level, re.sub(r"(?<=[a-z])(?=[A-Z])|-", "_", key).lower()))) is not None:
        return Meant(key=known)
    if (found := _same_letters(key, own)) is not None:
        return Meant(key=found)
    homes = _levels_near(level)
    for other in homes:
        if key in levels()[other]:
            return Meant(key=key, home=_HOMES[other], level=other)
    if (found := closest(key, own)) is not None:
        return Meant(key=found)
    words = [word for word in re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower()) if word]
    if (found := next((word for word in words if word in own), None)) is not None:
        return Meant(key=found)
    for other in homes:
        if (found := _same_letters(key, levels()[other])) is not None:
            return Meant(key=found, home=f'{_HOMES[other]}, as "{found}"', level=other)
    return Meant()


def closest(word: str, known: Iterable[str], cutoff: float = _CLOSE) -> str | None:
    """The known word most like `word`, or None when none is as near as `cutoff`."""
    import difflib

    if len(word) > 100:
        return None
    meant = list(known)
    letters = sorted(word.lower())
    # Letters in another order are a slip of two fingers, however much of a short word that is.
    swapped = next((each for each in meant if len(each) > 2 and sorted(each) == letters), None)
    if swapped is not None:
        return swapped
    found = difflib.get_close_matches(word.lower(), meant, n=1, cutoff=cutoff)
    return found[0] if found else None


def _levels_near(level: str) -> list[str]:
    """Other levels, the likeliest home first: one cannot tell more from a key alone."""
    order = ("schedules", "events", "services", "", "resources", "dst", "check")
    return [other for other in order if other != level]


def _same_letters(key: str, known: Sequence[str]) -> str | None:
    folded = _letters(key)
    singular = folded.rstrip("s")
    for each in known:
        if _letters(each) == folded or (singular and _letters(each).rstrip("s") == singular):
            return each
    return None


def _letters(key: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", key.lower())
