"""What was known of schedules that a registry has lost, until it is known what their account lacks by it.

It registers nothing, and closes nothing: `lostgaps` does, with what is answered here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from relayctl.core.definition import TOMBSTONE, Firing
from relayctl.worker.lostgaps import Gap

if TYPE_CHECKING:
    from relayctl.store.definitions import Head
    from relayctl.worker.agenda import Name


class LostHeads:
    """Used by the reconciler's thread alone."""

    def __init__(self) -> None:
        self._heads: dict[Name, Head] = {}

    def keep(self, name: Name, head: Head) -> None:
        """The registry does not have this head any more; what was known first of a schedule counts."""
        if head.hash != TOMBSTONE:
            self._heads.setdefault(name, head)

    def begun_anew(self, heads: Mapping[Name, Head], own: Mapping[Name, object]) -> dict[Name, Head]:
        """What was known of schedules that begin later by `heads` than they did, told once.

        The answer that created one may have been lost, so what the registry says decides, whoever created it.
        """
        lost = {name: before for name, before in self._heads.items() if name in heads}
        self._heads = {name: it for name, it in self._heads.items() if name in own and name not in lost}
        return {
            name: before
            for name, before in lost.items()
            if heads[name].gen == 1 and heads[name].from_ms > before.from_ms
        }


def gap_between(before: Head, head: Head, cursor: int) -> Gap:
    """The hole in a schedule's account from what was known of it, `cursor` included, to its new beginning."""
    # Of a definition that cannot be judged here, the one that is in force now is the best that is known.
    spec = before.spec if Firing.from_spec(before.spec).is_comparable else head.spec
    after = max(before.settled_mark or 0, -(-before.from_ms // 1000) - 1, cursor)
    return Gap(spec=spec, after=after, until_ms=head.from_ms)
