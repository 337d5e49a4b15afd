"""How much may go at once without somebody having agreed to it. It looks at numbers and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relayctl.core.counting import counted, listed
from relayctl.core.plan import Action, Item, Plan
from relayctl.errors import Refused

MOST_REMOVED = 5
MOST_REMOVED_SHARE = 0.2
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


def is_mass_removal(removed: int, total: int) -> bool:
    """Whether so many of the schedules go at once that it needs consent: more than a fifth of them and more than 5."""
    return removed > MOST_REMOVED and removed > MOST_REMOVED_SHARE * total


def removal_guard(plan: Plan) -> str:
    """What a reconciler would hold back of this plan, in words; empty when nothing."""
    removed = sum(
        1
        for change in plan.changes
        if change.action is Action.REMOVE and change.item is Item.SCHEDULE and not change.moved_to
    )
    is_emptied = removed > 0 and removed == plan.running and not plan.unchanged and not plan.count(Action.CREATE)
    if not (is_mass_removal(removed, plan.running) or is_emptied):
        return ""
    return f"removing {removed} of {plan.running} schedules at once is held back until it is agreed to"


def removal_limit(registered: int) -> int:
    """How many of so many schedules may go at once without consent."""
    return max(MOST_REMOVED, int(registered * MOST_REMOVED_SHARE))


def refuse_removal(removal: Removal, limits: Limits) -> None:
    """Raises Refused where more goes than was allowed."""
    is_emptied = not removal.apps_left or (removal.removed and not removal.left)
    if is_emptied:
        if not limits.allow_empty:
            what = "schedule any more" if removal.apps_left else "app"
            running = f"{counted(removal.registered, 'schedule')} {'runs' if removal.registered == 1 else 'run'}"
            raise Refused(
                f"refusing to remove everything: the tree holds no {what}, and {running}",
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
    return f"\n  reason  {listed(gone, _MOST_NAMED, 'app')} {'is' if len(gone) == 1 else 'are'} gone from the tree"
