"""Schedules that come under new names: which of those that appear here go on for one that goes, and their moves.

What a template says with `moved_from` counts, and so does what the registry has of a move that is taken back. Used by
the registrar alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from relayctl.core.definition import Spec
from relayctl.core.facts import Emit, ScheduleMoved
from relayctl.errors import BrokerError
from relayctl.store.moves import Move, MoveVerdict

if TYPE_CHECKING:
    from relayctl.core.model import App, Schedule
    from relayctl.store.definitions import Head, Mode
    from relayctl.store.moves import Moves
    from relayctl.worker.agenda import Name


class Renames:
    """Moves over the registry. It raises BrokerUnavailable or BrokerRefused."""

    def __init__(self, moves: Moves | None, emit: Emit, elsewhere: Callable[[], Mapping[str, App]] = dict) -> None:
        """Without `moves` nothing is ever moved; the apps `elsewhere` are in the tree, and other workers run them."""
        self._elsewhere = elsewhere
        self._moves = moves
        self._emit = emit
        self._former: dict[Name, tuple[Name, ...]] = {}
        self._waiting: dict[Name, tuple[Name, ...]] = {}

    def pairs(
        self, schedules: Mapping[Name, Schedule], own: Collection[Name], leaving: Collection[Name]
    ) -> dict[Name, Name]:
        """The old names of those that are not among the `own` ones yet and go on for another one.

        That one may have been among these, be `leaving`, or stand in no tree that is known here.
        """
        if self._moves is None:
            return {}
        going = {*(name for name in own if name not in schedules), *leaving}
        appearing = [name for name in schedules if name not in own]
        homes = self._moves.homes(appearing) if going and appearing else {}
        found: dict[Name, Name] = {}
        for name in appearing:
            former = schedules[name].moved_from
            if homes.get(name) in going:
                # A move is taken back: its template may not know that there was one.
                found[name] = homes[name]
            elif former is not None:
                found[name] = former
        others = {(app, each.name) for app, it in self._elsewhere().items() for each in it.schedules} if found else ()
        return {
            name: old for name, old in found.items() if (old not in schedules or old in leaving) and old not in others
        }

    def move(
        self, pairs: Mapping[Name, Name], schedules: Mapping[Name, Schedule], mode: Mode, held: Mapping[Name, int]
    ) -> None:
        """Carry out what the registry agrees to. `held` has the generations that the caller holds."""
        if self._moves is None or not pairs:
            return
        specs = {name: Spec.of(schedules[name]) for name in pairs}
        moves = [
            Move(
                old=old,
                new=name,
                mode=mode,
                hash=specs[name].hash,
                spec=specs[name].text,
                held_gen=held.get(old, 0),
                tombstone_gen=held.get(name, 0),
            )
            for name, old in pairs.items()
        ]
        for move, answer in zip(moves, self._moves.move(moves), strict=True):
            # What is refused for good is no record of ours, and told of where its schedule is proposed.
            if isinstance(answer, BrokerError) and answer.is_retryable:
                raise answer
            if answer is MoveVerdict.MOVED:
                self._emit(ScheduleMoved(app=move.new[0], schedule=move.new[1], moved_from="/".join(move.old)))

    def note(self, head: Head) -> None:
        """What stands under the former names of this one is to be put under its own."""
        name, former = (head.app, head.schedule), head.moved_from if head.moved_to is None else ()
        if former != self._former.get(name, ()):
            self._former[name] = self._waiting[name] = former

    def put_home(self, *, again: bool = False) -> None:
        """Do so, for all that was noted since the last time, or `again` for all."""
        wanted = self._former if again else self._waiting
        if wanted and self._moves is not None:
            self._moves.rehome(wanted)
        self._waiting.clear()
