"""What publishing a tree would do now: the plan, the definitions that change and go, and whether that was agreed to.

It looks and decides; `api.applying` publishes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from relayctl.api.desired import desired_of
from relayctl.api.observation import observe, with_removed
from relayctl.api.planning import plan_of
from relayctl.core.definition import TOMBSTONE, is_newer_spec
from relayctl.core.names import split_name
from relayctl.core.release import Release
from relayctl.core.removal import Limits, Removal, refuse_removal
from relayctl.errors import NewerFormat, NoTemplates
from relayctl.store.releases import Definition

if TYPE_CHECKING:
    from relayctl.api.observation import Observation
    from relayctl.api.place import Place
    from relayctl.core.description import Fields
    from relayctl.core.plan import Plan
    from relayctl.host.clock import Clock
    from relayctl.sources.content import Content
    from relayctl.store.definitions import Definitions, Head, Name
    from relayctl.store.releases import Releases


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What publishing a content would do now: the plan, the definitions it changes and removes, and what it builds on.

    `recoded` are the apps of which only files change that no template speaks of. `is_lost` says that the bundle of the
    release in force is gone or damaged, so that no further worker can take it.
    """

    content: Content
    observation: Observation
    plan: Plan
    current: Release | None
    base: int
    definitions: tuple[Definition, ...]
    registered: int
    recoded: tuple[str, ...]
    is_lost: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether publishing it would change anything."""
        # A plan may show more: what a worker has not taken yet, or what nobody can tell while none lives.
        is_other = self.current is None or dict(self.current.revisions) != self.content.revisions
        return is_other or self.is_lost or bool(self.definitions)

    @property
    def removed(self) -> tuple[Name, ...]:
        """The schedules that go, but for those that go on under another name."""
        moved = {each.moved_from for each in self.definitions}
        names = ((each.app, each.schedule) for each in self.definitions if each.hash == TOMBSTONE)
        return tuple(name for name in names if name not in moved)

    @property
    def counts(self) -> dict[str, int]:
        """How many changes of each kind its plan has."""
        counts: dict[str, int] = {}
        for change in self.plan.changes:
            counts[change.action.value] = counts.get(change.action.value, 0) + 1
        return counts


def propose(
    content: Content, releases: Releases, definitions: Definitions, *, place: Place, clock: Clock, now: datetime
) -> Proposal:
    """What publishing this would do now. The release in force is read first: it is what the rest is fenced by."""
    base, current = releases.serial(), releases.current()
    if base and current is None:
        raise _newer(f"release {base} was made")
    desired = desired_of(content.tree)
    seen = observe(place, clock, with_last=False)
    observation = with_removed(seen, desired, place, clock)
    plan = plan_of(desired, observation, now=now)
    names = definitions.all_names()
    specs: dict[Name, Fields] = {
        (app, name): fields
        for app, described in desired.descriptions.items()
        for name, fields in described.schedules.items()
    }
    heads = definitions.heads(names | specs.keys())
    if (newer := next((name for name, head in heads.items() if is_newer_spec(head.spec)), None)) is not None:
        raise _newer(f"the definition of {newer[0]}/{newer[1]} was written")
    changed = {each.app for each in plan.changes}
    before = {} if current is None else current.revisions
    recoded = [app for app, revision in content.revisions.items() if before.get(app, revision) != revision]
    proposal = Proposal(
        content=content,
        observation=observation,
        plan=plan,
        current=current,
        base=base,
        definitions=tuple(_definitions(specs, heads, _moves(plan, heads))),
        registered=len(names),
        recoded=tuple(sorted(set(recoded) - changed)),
    )
    # Where anything changes the new release brings a bundle of its own.
    return proposal if proposal.is_needed else replace(proposal, is_lost=_is_lost(releases, current))


def _is_lost(releases: Releases, current: Release | None) -> bool:
    from relayctl.sources.bundle import is_intact

    if current is None:
        return False
    data = releases.bundle(current.digest)
    return data is None or not is_intact(data, current.digest)


def check_removals(proposal: Proposal, limits: Limits) -> None:
    """Refused where more goes than was allowed; NoTemplates where there is nothing on either side."""
    tree = proposal.content.tree
    if not tree.apps and not proposal.registered and proposal.current is None:
        raise NoTemplates("no app has a template.yaml", help="relayctl init makes a first one")
    removal = Removal(
        removed=len(proposal.removed),
        registered=proposal.registered,
        left=proposal.content.schedules,
        apps_left=len(tree.apps),
        apps_gone=tuple(sorted({app for app, _ in proposal.removed} - proposal.content.revisions.keys())),
    )
    refuse_removal(removal, limits)


def _moves(plan: Plan, heads: Mapping[Name, Head]) -> dict[Name, Name]:
    """The old names of what goes on under a new one, as far as the registry still has them so."""
    found: dict[Name, Name] = {}
    for change in plan.changes:
        former = split_name(change.moved_from)
        old, new = heads.get(former), heads.get((change.app, change.name))
        is_free = new is None or new.hash == TOMBSTONE
        if old is not None and old.hash != TOMBSTONE and is_free and former not in found.values():
            found[change.app, change.name] = former
    return found


def _definitions(
    specs: Mapping[Name, Fields], heads: Mapping[Name, Head], moves: Mapping[Name, Name]
) -> Iterator[Definition]:
    for name, fields in sorted(specs.items()):
        head = heads.get(name)
        if head is None or head.hash != fields["hash"]:
            yield Definition(
                app=name[0],
                schedule=name[1],
                hash=fields["hash"],
                spec=fields["spec"],
                gen=0 if head is None else head.gen,
                moved_from=moves.get(name),
            )
    for name, head in sorted(heads.items()):
        if name not in specs and head.hash != TOMBSTONE:
            yield Definition(app=name[0], schedule=name[1], hash=TOMBSTONE, spec="", gen=head.gen)


def _newer(what: str) -> NewerFormat:
    return NewerFormat(f"{what} by a newer relayctl; nothing was changed", help="use that version, or upgrade this one")
