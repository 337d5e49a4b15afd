"""Which schedule goes on for which: by what the templates say, by moves that are taken back, and never with both here."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from support.templates import checked, schedule

from relayctl.worker.renames import Renames

if TYPE_CHECKING:
    from collections.abc import Iterable

    from relayctl.core.facts import Fact
    from relayctl.core.model import App, Schedule
    from relayctl.store.moves import Moves
    from relayctl.worker.agenda import Name

A, B, FAR = ("sample", "a"), ("sample", "b"), ("far", "a")


class Homes:
    """What the registry has of moves."""

    def __init__(self, homes: dict[Name, Name]) -> None:
        self._homes = homes

    def homes(self, names: Iterable[Name]) -> dict[Name, Name]:
        return {name: self._homes[name] for name in names if name in self._homes}


def app(name: str, former: str = "") -> App:
    found, _ = checked(schedule("every: 1h", *([f"moved_from: {former}"] if former else []), name=name))
    assert found is not None
    return found


def one(name: str, former: str = "") -> Schedule:
    return app(name, former).schedules[0]


def pairs(
    schedules: dict[Name, Schedule],
    own: set[Name],
    *,
    homes: dict[Name, Name] | None = None,
    leaving: set[Name] | None = None,
    elsewhere: dict[str, App] | None = None,
) -> dict[Name, Name]:
    told: list[Fact] = []
    renames = Renames(cast("Moves", Homes(homes or {})), told.append, lambda: elsewhere or {})
    return renames.pairs(schedules, own, leaving or set())


@pytest.mark.parametrize("own", [set(), {A}], ids=["at-a-start", "by-an-edit"])
def test_what_its_template_says(own: set[Name]) -> None:
    assert pairs({B: one("b", "sample/a")}, own) == {B: A}


def test_what_is_here_already_was_moved_before() -> None:
    assert pairs({B: one("b", "sample/a")}, {A, B}) == {}


def test_both_in_the_tree_are_two_schedules_unless_one_is_leaving() -> None:
    both = {A: one("a"), B: one("b", "sample/a")}
    assert pairs(both, {A}) == {}
    assert pairs(both, {A}, leaving={A}) == {B: A}
    assert pairs({B: one("b", "far/a")}, set(), elsewhere={"far": app("a")}) == {}
    assert pairs({B: one("b", "far/a")}, set(), elsewhere={"far": app("other")}) == {B: FAR}


def test_a_move_that_is_taken_back_needs_no_word_and_counts_first() -> None:
    assert pairs({A: one("a")}, {B}, homes={A: B}) == {A: B}
    assert pairs({A: one("a", "far/a")}, {B}, homes={A: B}) == {A: B}
    assert pairs({A: one("a")}, {FAR}, homes={A: B}) == {}
