"""Keeps the registry and this worker's schedules in step: proposes what the files hold, arms what the fleet decided.

A worker whose definition is superseded is `behind`: it fires the head's stored definition, shows the drift and
disturbs nobody; it takes over only when no live worker has held the head for thirty seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from relayctl.core.definition import TOMBSTONE, Firing, Spec
from relayctl.core.facts import ControlUsed, Emit, ScheduleBehind
from relayctl.errors import BrokerRefused
from relayctl.store.definitions import Head, Mode, Proposal, Verdict
from relayctl.worker.agenda import Armed, Name, Pause
from relayctl.worker.lostgaps import Gap
from relayctl.worker.renames import Renames
from relayctl.worker.unowned import Unowned
from relayctl.worker.unreadable import Unreadable

if TYPE_CHECKING:
    from relayctl.core.definition import Generation
    from relayctl.core.model import Schedule
    from relayctl.host.clock import Clock
    from relayctl.store.controls import Controls
    from relayctl.store.definitions import Definitions
    from relayctl.worker.lostgaps import LostGaps
    from relayctl.worker.peers import Peers
    from relayctl.worker.scheduler import Scheduler

ADOPT_AFTER_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What this worker's files say of one schedule, and the generation that says the same (0: none in force does)."""

    schedule: Schedule
    spec: Spec
    held_gen: int = 0


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
        self._controls = controls
        self._definitions = definitions
        self._unowned = Unowned(definitions)
        self._scheduler = scheduler
        self._peers = peers
        self._clock = clock
        self._worker = worker
        self._emit = emit
        self._own: dict[Name, Own] = {}
        self._heads: dict[Name, Head] = {}
        self._unheld_since: dict[Name, float] = {}
        self._withdrawn: dict[Name, int] = {}
        self._untold: set[Name] = set()
        self._lost: dict[Name, Head] = {}
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
            [
                Proposal(
                    app=name[0],
                    schedule=name[1],
                    mode=mode,
                    hash=own.spec.hash,
                    spec=own.spec.text,
                    held_gen=own.held_gen,
                )
                for name, own in changed
            ],
            dict(changed),
        )
        self._arm(rearmed)
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
        proposals = [
            Proposal(
                app=name[0],
                schedule=name[1],
                mode=Mode.EDIT,
                hash=TOMBSTONE,
                spec="",
                held_gen=self._own[name].held_gen,
            )
            for name in names
            if name in self._own
        ]
        answers = self._ask(proposals)
        verdicts: dict[Name, Verdict] = {}
        for proposal, answer in zip(proposals, answers, strict=True):
            name = (proposal.app, proposal.schedule)
            verdict, head = (None, None) if isinstance(answer, BrokerRefused) else answer
            if verdict is not None:
                verdicts[name] = verdict
            del self._own[name]
            self._unowned.changed([name])
            self._unheld_since.pop(name, None)
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
        if self._lost:
            self._note_gaps(self._begun_anew())

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
        anew = self._begun_anew()
        self._note_gaps(anew)
        return anew.keys() | {name for name, verdict in verdicts.items() if verdict is Verdict.CREATED}

    def _forget_heads(self, names: Iterable[Name]) -> None:
        """These are to be registered anew. What was known is kept aside, since that may fail on the way."""
        for name in names:
            before = self._heads.pop(name, None)
            if before is not None and before.hash != TOMBSTONE:
                self._lost.setdefault(name, before)
            if name in self._own:
                self._own[name] = replace(self._own[name], held_gen=0)

    def _begun_anew(self) -> dict[Name, Head]:
        """What was known of schedules that begin later now than they did, told once.

        The answer that created one may have been lost, so what the registry says decides, whoever created it.
        """
        lost = {name: before for name, before in self._lost.items() if name in self._heads}
        self._lost = {name: it for name, it in self._lost.items() if name in self._own and name not in lost}
        return {
            name: before
            for name, before in lost.items()
            if self._heads[name].gen == 1 and self._heads[name].from_ms > before.from_ms
        }

    def _note_gaps(self, anew: Mapping[Name, Head]) -> None:
        """The account of these has a hole between what was known of them and now."""
        if not anew or self._gaps is None:
            return
        cursors = self._scheduler.cursors()
        for name, before in anew.items():
            head = self._heads[name]
            # Of a definition that cannot be judged here, the one that is in force now is the best that is known.
            spec = before.spec if Firing.from_spec(before.spec).is_comparable else head.spec
            after = max(before.settled_mark or 0, -(-before.from_ms // 1000) - 1, cursors.get(name, 0))
            self._gaps.note(name, Gap(spec=spec, after=after, until_ms=head.from_ms))

    def end_pauses(self, now_ms: int) -> None:
        """End the pauses that had an end and are over: whichever worker comes first does it for all."""
        over = [
            name
            for name, head in self._heads.items()
            if head.paused_until is not None
            and head.paused_until * 1000 <= now_ms
            # What it covered cannot be counted with another evaluator or other zone data.
            and Firing.from_spec(head.spec).is_comparable
        ]
        if over and self._controls is not None:
            for app, schedule in over:
                try:
                    self._controls.resume(app, schedule, by=self._worker, only_ended=True)
                except BrokerRefused:
                    if not self._is_unreadable((app, schedule)):
                        raise
                    continue
                if (app, schedule) not in self._own:
                    # Nobody reads its head again, so it would be found over for ever.
                    del self._heads[app, schedule]
            self.refresh(over)

    def adopt_unheld(self, unread: Collection[str]) -> None:
        """Put this worker's definitions in force where no live worker has held the head for long enough.

        Those of the apps in `unread` are no evidence: nobody knows what their files are meant to say.
        """
        if self._is_following:
            return
        ripe = self._ripe({name: head for name, head in self.behind.items() if name[0] not in unread})
        self._move_back(ripe)
        self._register(
            [
                Proposal(
                    app=name[0],
                    schedule=name[1],
                    mode=Mode.ADOPT,
                    hash=self._own[name].spec.hash,
                    spec=self._own[name].spec.text,
                    held_gen=head.gen,
                )
                for name, head in ripe.items()
            ],
            {},
        )

    def _move_back(self, ripe: Mapping[Name, Head]) -> None:
        """What the fleet has under another name, which no live worker holds any more, comes back under its own."""
        gone = {name: self._own[name].schedule for name, head in ripe.items() if head.hash == TOMBSTONE}
        if gone:
            unheld = self._ripe(self._unowned.heads(self._own.keys()), any_hash=True)
            pairs = {name: old for name, old in self.renames.pairs(gone, {}, unheld).items() if old in unheld}
            self.renames.move(pairs, gone, Mode.ADOPT, {name: ripe[name].gen for name in gone})

    def orphans(self) -> dict[Name, Head]:
        """Schedules in the registry that neither this worker's files nor any live worker has held for long enough."""
        if self._is_following:
            return {}
        return self._ripe(self._unowned.heads(self._own.keys()), any_hash=True)

    def look_at_all(self) -> None:
        """Read the whole registry the next time that orphans are asked for, whatever was heard of changes."""
        self._unowned.forget()

    def bury(self, orphans: Mapping[Name, Head]) -> None:
        """Remove orphans from the registry, unless their head has changed since it was looked at."""
        self._definitions.register(
            [
                Proposal(app=name[0], schedule=name[1], mode=Mode.ADOPT, hash=TOMBSTONE, spec="", held_gen=head.gen)
                for name, head in orphans.items()
            ]
        )

    def _ripe(self, heads: Mapping[Name, Head], *, any_hash: bool = False) -> dict[Name, Head]:
        now = self._clock.monotonic()
        ripe: dict[Name, Head] = {}
        for name, head in heads.items():
            if self._is_held(name, head, any_hash=any_hash):
                self._unheld_since.pop(name, None)
            elif now - self._unheld_since.setdefault(name, now) >= ADOPT_AFTER_S:
                ripe[name] = head
        return ripe

    def _is_held(self, name: Name, head: Head, *, any_hash: bool) -> bool:
        """Whether a live peer holds the head. A removal is held by whoever could have the schedule and has not."""
        if self._peers.newer:
            # What they hold cannot be known here.
            return True
        if head.hash == TOMBSTONE and not any_hash:
            return any(worker != self._worker for worker in self._peers.lacking(*name))
        holders = self._peers.holders(f"{name[0]}/{name[1]}")
        return any(any_hash or held == head.hash for worker, held in holders.items() if worker != self._worker)

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
            if head.is_untold:
                self._untold.add(name)
            self.renames.note(head)
            own = self._own.get(name)
            if own is None:
                continue
            if own.spec.hash == head.hash:
                self._unheld_since.pop(name, None)
                if own.held_gen != head.gen:
                    self._own[name] = replace(own, held_gen=head.gen)
            elif before is None or before.hash != head.hash:
                self._tell_behind(name, head)
        self._arm(heads, is_disputed=is_disputed)

    def _arm(self, names: Iterable[Name], *, is_disputed: bool = False) -> None:
        armed: list[Armed] = []
        ended: list[Head] = []
        for name in names:
            head, own = self._heads[name], self._own.get(name)
            if head.hash == TOMBSTONE:
                ended.append(head)
            if own is None or (head.hash == TOMBSTONE and not is_disputed):
                continue
            if Firing.from_spec(head.spec).is_comparable:
                armed.append(self._armed(head, own.schedule, is_disputed))
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
        if head.gen == 1 or head.settled_until * 1000 >= head.from_ms:
            return (head.generation,)
        return tuple(
            item
            for item in self._definitions.generations(head.app, head.schedule)
            if item.to_ms is None or item.to_ms > head.settled_until * 1000
        ) or (head.generation,)

    def close_gaps(self) -> None:
        """Close what a lost registry left open, where that has not been done."""
        if self._gaps is not None:
            self._gaps.close()

    def tell_acts(self) -> None:
        """Tell what operators did to the schedules here. Of the fleet one worker tells each act: who takes it first."""
        while self._untold and self._controls is not None:
            app, schedule = name = next(iter(self._untold))
            try:
                acts = self._controls.take_untold(app, schedule)
            except BrokerRefused:
                if not self._is_unreadable(name):
                    raise
                acts = []
            for act in acts:
                self._emit(ControlUsed(action=act.action, target=f"{app}/{schedule}", by=act.by, reason=act.reason))
            self._untold.discard(name)

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
