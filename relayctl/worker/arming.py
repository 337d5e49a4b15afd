"""Has the scheduler fire what the fleet decided: from the heads of the registry to what is armed, dropped or retired.

Which heads count, and when they are read, the registrar says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from relayctl.core.definition import TOMBSTONE, Firing
from relayctl.worker.agenda import Armed, Pause

if TYPE_CHECKING:
    from relayctl.core.definition import Generation
    from relayctl.core.model import Schedule
    from relayctl.store.definitions import Definitions, Head
    from relayctl.worker.agenda import Name
    from relayctl.worker.own import Own
    from relayctl.worker.scheduler import Scheduler


class Arming:
    """Used by the reconciler's thread alone."""

    def __init__(self, definitions: Definitions, scheduler: Scheduler) -> None:
        self._definitions = definitions
        self._scheduler = scheduler

    def arm(self, heads: Iterable[Head], own: Mapping[Name, Own], *, is_disputed: bool = False) -> None:
        """Put these in force here; `is_disputed` reads the whole past of each, and replaces what is known of it."""
        armed: list[Armed] = []
        ended: list[Head] = []
        for head in heads:
            name = (head.app, head.schedule)
            mine = own.get(name)
            if head.hash == TOMBSTONE:
                ended.append(head)
            if mine is None or (head.hash == TOMBSTONE and not is_disputed):
                continue
            if Firing.from_spec(head.spec).is_comparable:
                armed.append(self._armed(head, mine.schedule, is_disputed))
            else:
                self._scheduler.drop([name])
        self._scheduler.arm(armed)
        for head in ended:
            if head.moved_to is not None:
                # What it owes is owed under the new name.
                self._scheduler.drop([(head.app, head.schedule)])
            else:
                self._scheduler.retire([(head.app, head.schedule)], head.from_ms)

    def _armed(self, head: Head, schedule: Schedule, is_disputed: bool) -> Armed:
        return Armed(
            app=head.app,
            schedule=head.schedule,
            handler=schedule.contract.handler,
            jitter=schedule.jitter,
            catch_up=schedule.catch_up,
            generations=tuple(self._definitions.generations(head.app, head.schedule)) or (head.generation,)
            if is_disputed
            else self._generations(head),
            settled_until=head.settled_until,
            is_whole=is_disputed,
            floor=head.floor,
            pause=None if head.paused_at is None else Pause(head.paused_at, head.paused_until),
        )

    def _generations(self, head: Head) -> tuple[Generation, ...]:
        """The definitions that may owe something."""
        if head.gen == 1 or head.settled_until * 1000 >= head.from_ms:
            return (head.generation,)
        return tuple(
            item
            for item in self._definitions.generations(head.app, head.schedule)
            if item.to_ms is None or item.to_ms > head.settled_until * 1000
        ) or (head.generation,)
