"""Keys of the template that still work and will be refused: the list that RLY110 reads. It is empty so far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeprecatedKey:
    """One key of a level (`schedules`, `events`, `services`, or empty for the top).

    `since` and `removed_in` are versions of the schema; `instead` is the key that means the same, where there is one.
    """

    level: str
    name: str
    since: str
    removed_in: str
    instead: str = ""


DEPRECATED_KEYS: tuple[DeprecatedKey, ...] = ()
"""A key stays in the schema until the version that removes it, and stands here meanwhile."""
