"""How much a release may remove at once without somebody having agreed to it. It looks at numbers and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relayctl.core.diff import MOST_REMOVED, MOST_REMOVED_SHARE
from relayctl.errors import Refused

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an operator allows: how many schedules may go (None: the usual share), and whether all may."""

    max_removals: int | None = None
    allow_empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What goes, and what is left: schedules, `registered` those that run now; apps, those that are gone by name."""

    removed: int
    registered: int
    left: int
    apps_left: int
    apps_gone: Sequence[str] = ()


def removal_limit(registered: int) -> int:
    """How many of so many schedules may go at once without consent."""
    return max(MOST_REMOVED, int(registered * MOST_REMOVED_SHARE))


def refuse_removal(removal: Removal, limits: Limits) -> None:
    """Raises Refused where more goes than was allowed."""
    is_emptied = not removal.apps_left or (removal.removed and not removal.left)
    if is_emptied:
        if not limits.allow_empty:
            what = "schedule any more" if removal.apps_left else "app"
            raise Refused(
                f"refusing to remove everything: the tree holds no {what}, and {removal.registered} schedules run",
                help="if intended: --allow-empty\nif not: check the checkout; nothing was changed",
            )
        return
    limit = removal_limit(removal.registered) if limits.max_removals is None else limits.max_removals
    if removal.removed > limit:
        raise Refused(
            f"refusing to remove {removal.removed} of {removal.registered} schedules (limit {limit}){_reason(removal)}",
            help=f"if intended: --max-removals {removal.removed}\nif not: check the checkout; nothing was changed",
        )


def _reason(removal: Removal) -> str:
    gone = removal.apps_gone
    if not gone:
        return ""
    more = f" and {len(gone) - _MOST_NAMED} more apps" if len(gone) > _MOST_NAMED else ""
    return f"\n  reason  {', '.join(gone[:_MOST_NAMED])}{more} {'is' if len(gone) == 1 else 'are'} gone from the tree"
