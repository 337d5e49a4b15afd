"""What a worker's own files say of a schedule, and how it is proposed to the registry. It asks nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from relayctl.core.definition import TOMBSTONE
from relayctl.store.definitions import Proposal

if TYPE_CHECKING:
    from relayctl.core.definition import Spec
    from relayctl.core.model import Schedule
    from relayctl.store.definitions import Mode
    from relayctl.worker.agenda import Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What this worker's files say of one schedule, and the generation that says the same (0: none in force does)."""

    schedule: Schedule
    spec: Spec
    held_gen: int = 0

    def proposal(self, name: Name, mode: Mode, held_gen: int | None = None) -> Proposal:
        """That it be in force; `held_gen` where another generation than its own is to be replaced."""
        return Proposal(
            app=name[0],
            schedule=name[1],
            mode=mode,
            hash=self.spec.hash,
            spec=self.spec.text,
            held_gen=self.held_gen if held_gen is None else held_gen,
        )


def removal(name: Name, mode: Mode, held_gen: int) -> Proposal:
    """That a schedule be no more, if that generation of it is in force."""
    return Proposal(app=name[0], schedule=name[1], mode=mode, hash=TOMBSTONE, spec="", held_gen=held_gen)
