"""Keeps the registry and this worker's schedules in step: proposes what the files hold, arms what the fleet decided.

A worker whose definition is superseded is `behind`: it fires the head's stored definition, shows the drift and
disturbs nobody; it takes over only when no live worker has held the head for thirty seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from relayctl.core.definition import TOMBSTONE, Firing, Spec
from relayctl.core.facts import Emit, ScheduleBehind
from relayctl.errors import BrokerRefused
from relayctl.store.definitions import Mode, Verdict
from relayctl.worker.acts import Acts
from relayctl.worker.arming import Arming
from relayctl.worker.lostheads import LostHeads, gap_between
from relayctl.worker.own import Own, removal
from relayctl.worker.renames import Renames
from relayctl.worker.unheld import Unheld
from relayctl.worker.unowned import Unowned
from relayctl.worker.unreadable import Unreadable

if TYPE_CHECKING:
    from relayctl.core.model import Schedule
    from relayctl.host.clock import Clock
    from relayctl.store.controls import Controls
    from relayctl.store.definitions import Definitions, Head, Proposal
    from relayctl.worker.agenda import Name
    from relayctl.worker.lostgaps import LostGaps
    from relayctl.worker.peers import Peers
    from relayctl.worker.scheduler import Scheduler


class Registrar:
    """One worker's side of the registry. Used by the reconciler's thread alone."""

    def __init__(
        self,
        *,
        definitions: Definitions,
        scheduler: Scheduler,
        peers: Peers,
        clock: Clock,
        worker: str,
        emit: Emit,
        is_following: bool = False,
        controls: Controls | None = None,
        gaps: LostGaps | None = None,
        renames: Renames | None = None,
        unreadable: Unreadable | None = None,
    ) -> None:
        """With `is_following` releases alone define schedules, and nothing is proposed here. `controls` end the pauses
        whose time is over, `gaps` close what a registry that was lost cannot say, `unreadable` tells of records that
        relayctl did not write."""
        self.unreadable = unreadable or Unreadable(clock, emit)
        self._refused: set[Name] = set()
        self._is_following = is_following
        self._gaps = gaps
        self.renames = renames or Renames(None, emit)
        self._definitions = definitions
        self._unowned = Unowned(definitions)
        self._scheduler = scheduler
        self._unheld = Unheld(peers, clock, worker)
        self._arming = Arming(definitions, scheduler)
        self._acts = Acts(controls, worker, emit, self._is_unreadable)
        self._emit = emit
        self._own: dict[Name, Own] = {}
        self._heads: dict[Name, Head] = {}
        self._withdrawn: dict[Name, int] = {}
        self._lost = LostHeads()
        self._seq = -1

    @property
    def hashes(self) -> dict[Name, str]:
        """The definitions that this worker's files hold."""
        return {name: own.spec.hash for name, own in self._own.items()}

    @property
    def heads(self) -> dict[Name, Head]:
        """The definitions in force as last heard, to be read from any thread."""
        return dict(self._heads)

    @property
    def behind(self) -> dict[Name, Head]:
        """The schedules where the fleet runs another definition than this worker's files hold."""
        return {
            name: head
            for name, head in self._heads.items()
            if name in self._own and head.hash != self._own[name].spec.hash
        }

    def propose(self, schedules: Mapping[Name, Schedule], mode: Mode) -> dict[Name, Verdict]:
        """Make these the files' definitions, and register those whose firing is new or changed."""
        changed: list[tuple[Name, Own]] = []
        rearmed: list[Name] = []
        for name, schedule in schedules.items():
            known = self._own.get(name)
            # What was not loaded anew is the same object, and of a thousand schedules that is nearly all.
            spec = known.spec if known is not None and known.schedule is schedule else Spec.of(schedule)
            held_gen = self._withdrawn.get(name, 0) if known is None else known.held_gen
            own = Own(schedule=schedule, spec=spec, held_gen=held_gen)
            if known is None or known.spec.hash != spec.hash or name not in self._heads:
                changed.append((name, own))
            elif known.schedule is not schedule:
                if known.schedule != schedule:
                    rearmed.append(name)
                self._own[name] = own
        verdicts = self._register(
            [own.proposal(name, mode) for name, own in changed],
            dict(changed),
        )
        self._arming.arm([self._heads[name] for name in rearmed], self._own)
        return verdicts

    def rename(self, schedules: Mapping[Name, Schedule], mode: Mode, leaving: Collection[Name] = ()) -> None:
        """Move what has a new name, before anything is proposed or withdrawn; `leaving` may stand there for now."""
        pairs = {} if self._is_following else self.renames.pairs(schedules, self._own, leaving)
        if pairs:
            held = {name: own.held_gen for name, own in self._own.items()} | self._withdrawn
            self.renames.move(pairs, schedules, mode, held)
            # The others are withdrawn next.
            self.refresh(old for old in pairs.values() if old in leaving)

    def withdraw(self, names: Iterable[Name]) -> dict[Name, Verdict]:
        """Take schedules out of the fleet that left this worker's readable tree while it watched."""
        proposals = [removal(name, Mode.EDIT, self._own[name].held_gen) for name in names if name in self._own]
        answers = self._ask(proposals)
        verdicts: dict[Name, Verdict] = {}
        for proposal, answer in zip(proposals, answers, strict=True):
            name = (proposal.app, proposal.schedule)
            verdict, head = (None, None) if isinstance(answer, BrokerRefused) else answer
            if verdict is not None:
                verdicts[name] = verdict
            del self._own[name]
            self._unowned.changed([name])
            self._unheld.forget([name])
            if head is not None and head.hash == TOMBSTONE:
                self._withdrawn[name] = head.gen
                self._take({name: head})
            else:
                # Somebody else's definition is in force: it is theirs to fire.
                self._scheduler.drop([name])
        return verdicts

    def follow(self, seq: int) -> None:
        """Take over what others changed in the registry up to that count."""
        if seq == self._seq:
            return
        names = None if self._seq < 0 or seq < self._seq else self._definitions.changes_since(self._seq)
        if names is None:
            self._unowned.forget()
        else:
            self._unowned.changed(names)
        looked_at = self._own if names is None else [name for name in names if name in self._own]
        self.refresh(looked_at)
        self._seq = seq

    def refresh(self, names: Iterable[Name], *, is_disputed: bool = False) -> None:
        """Read these heads again and arm what they say; a schedule that the registry lost is registered again.

        `is_disputed` says that the registry refused instants of these: what is known of their past is dropped too.
        """
        wanted = [name for name in names if name in self._own]
        found = self._definitions.look(wanted)
        self._take(found.heads, is_disputed=is_disputed)
        self._refuse(found.unreadable)
        known = found.heads.keys() | found.unreadable.keys()
        lost = {name: self._own[name].schedule for name in wanted if name not in known}
        if lost:
            self._forget_heads(list(lost))
            self.propose(lost, Mode.START)
        self._note_gaps(self._lost.begun_anew(self._heads, self._own))

    def look_again(self) -> None:
        """See whether what could not be read can be by now; no change is announced where a hand has mended it."""
        refused, self._refused = self._refused, set()
        if refused:
            try:
                self.refresh(refused)
            except BaseException:
                self._refused |= refused
                raise

    def _refuse(self, refusals: Mapping[Name, BrokerRefused]) -> None:
        """Go on without these; what is armed of them stays as it was."""
        self._refused |= refusals.keys()
        self.unreadable.tell(refusals)

    def _is_unreadable(self, name: Name) -> bool:
        refusals = self._definitions.look([name]).unreadable
        self._refuse(refusals)
        return bool(refusals)

    def forget_registry(self) -> set[Name]:
        """The broker is another one than before: register everything again, as on a start.

        Answers what had to begin anew, since nobody could tell the registry of it.
        """
        self._seq = -1
        self._unowned.forget()
        self._forget_heads(list(self._own.keys() | self._heads.keys()))
        verdicts = self.propose({name: item.schedule for name, item in self._own.items()}, Mode.START)
        anew = self._lost.begun_anew(self._heads, self._own)
        self._note_gaps(anew)
        return anew.keys() | {name for name, verdict in verdicts.items() if verdict is Verdict.CREATED}

    def _forget_heads(self, names: Iterable[Name]) -> None:
        """These are to be registered anew. What was known is kept aside, since that may fail on the way."""
        for name in names:
            before = self._heads.pop(name, None)
            if before is not None:
                self._lost.keep(name, before)
            if name in self._own:
                self._own[name] = replace(self._own[name], held_gen=0)

    def _note_gaps(self, anew: Mapping[Name, Head]) -> None:
        """The account of these has a hole between what was known of them and now."""
        if not anew or self._gaps is None:
            return
        cursors = self._scheduler.cursors()
        for name, before in anew.items():
            self._gaps.note(name, gap_between(before, self._heads[name], cursors.get(name, 0)))

    def end_pauses(self, now_ms: int) -> None:
        """End the pauses that had an end and are over: whichever worker comes first does it for all."""
        over, ended = self._acts.end_pauses(self._heads, now_ms)
        for name in ended:
            if name not in self._own:
                # Nobody reads its head again, so it would be found over for ever.
                del self._heads[name]
        if over:
            self.refresh(over)

    def adopt_unheld(self, unread: Collection[str]) -> None:
        """Put this worker's definitions in force where no live worker has held the head for long enough.

        Those of the apps in `unread` are no evidence: nobody knows what their files are meant to say.
        """
        if self._is_following:
            return
        ripe = self._unheld.ripe({name: head for name, head in self.behind.items() if name[0] not in unread})
        self._move_back(ripe)
        self._register(
            [self._own[name].proposal(name, Mode.ADOPT, head.gen) for name, head in ripe.items()],
            {},
        )

    def _move_back(self, ripe: Mapping[Name, Head]) -> None:
        """What the fleet has under another name, which no live worker holds any more, comes back under its own."""
        gone = {name: self._own[name].schedule for name, head in ripe.items() if head.hash == TOMBSTONE}
        if gone:
            unheld = self._unheld.ripe(self._unowned.heads(self._own.keys()), any_hash=True)
            pairs = {name: old for name, old in self.renames.pairs(gone, {}, unheld).items() if old in unheld}
            self.renames.move(pairs, gone, Mode.ADOPT, {name: ripe[name].gen for name in gone})

    def orphans(self) -> dict[Name, Head]:
        """Schedules in the registry that neither this worker's files nor any live worker has held for long enough."""
        if self._is_following:
            return {}
        return self._unheld.ripe(self._unowned.heads(self._own.keys()), any_hash=True)

    def look_at_all(self) -> None:
        """Read the whole registry the next time that orphans are asked for, whatever was heard of changes."""
        self._unowned.forget()

    def bury(self, orphans: Mapping[Name, Head]) -> None:
        """Remove orphans from the registry, unless their head has changed since it was looked at."""
        self._definitions.register([removal(name, Mode.ADOPT, head.gen) for name, head in orphans.items()])

    def _register(self, proposals: Sequence[Proposal], own: Mapping[Name, Own]) -> dict[Name, Verdict]:
        answers = self._ask(proposals)
        # Only what the registry heard of counts as proposed: an error above leaves the next pass to try again.
        self._own |= own
        for name in own:
            self._withdrawn.pop(name, None)
        heads: dict[Name, Head] = {}
        refusals: dict[Name, BrokerRefused] = {}
        verdicts: dict[Name, Verdict] = {}
        for proposal, answer in zip(proposals, answers, strict=True):
            name = (proposal.app, proposal.schedule)
            if isinstance(answer, BrokerRefused):
                refusals[name] = answer
                continue
            verdicts[name], head = answer
            if head is not None:
                heads[name] = head
        self._take(heads)
        self._refuse(refusals)
        return verdicts

    def _ask(self, proposals: Sequence[Proposal]) -> list[tuple[Verdict, Head | None] | BrokerRefused]:
        """What the registry makes of these, or what it has already where releases alone change it."""
        if not self._is_following:
            return self._definitions.register(proposals)
        heads = self._definitions.heads((item.app, item.schedule) for item in proposals)
        answers: list[tuple[Verdict, Head | None] | BrokerRefused] = []
        for item in proposals:
            head = heads.get((item.app, item.schedule))
            is_same = head is not None and head.hash == item.hash
            answers.append((Verdict.ABSENT if head is None else Verdict.UNCHANGED if is_same else Verdict.BEHIND, head))
        return answers

    def _take(self, heads: Mapping[Name, Head], *, is_disputed: bool = False) -> None:
        for name, head in heads.items():
            before = self._heads.get(name)
            self._heads[name] = head
            self._acts.note(head)
            self.renames.note(head)
            own = self._own.get(name)
            if own is None:
                continue
            if own.spec.hash == head.hash:
                self._unheld.forget([name])
                if own.held_gen != head.gen:
                    self._own[name] = replace(own, held_gen=head.gen)
            elif before is None or before.hash != head.hash:
                self._tell_behind(name, head)
        self._arming.arm(heads.values(), self._own, is_disputed=is_disputed)

    def close_gaps(self) -> None:
        """Close what a lost registry left open, where that has not been done."""
        if self._gaps is not None:
            self._gaps.close()

    def tell_acts(self) -> None:
        """Tell what operators did to the schedules here. Of the fleet one worker tells each act: who takes it first."""
        self._acts.tell()

    def _tell_behind(self, name: Name, head: Head) -> None:
        is_comparable = Firing.from_spec(head.spec).is_comparable
        if self._is_following and is_comparable:
            # A release came into force, and its files are on their way here.
            return
        if head.moved_to is not None:
            reason = f"the fleet has it as {'/'.join(head.moved_to)}"
        elif head.hash == TOMBSTONE:
            reason = "the fleet has removed it"
        elif is_comparable:
            reason = "the fleet runs a newer definition"
        else:
            reason = "the fleet's definition rests on another evaluator or other zone data"
        self._emit(ScheduleBehind(app=name[0], schedule=name[1], reason=reason))
