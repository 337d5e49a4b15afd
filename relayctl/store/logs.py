"""Finds the run whose output an operator asks for, and all that is kept of it. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, tzinfo
from typing import TYPE_CHECKING

from relayctl.core.lifecycle import Kind, Slot
from relayctl.core.occurrence import instant_from_text, instant_text
from relayctl.core.record import message_order
from relayctl.core.runlog import RunLog
from relayctl.errors import UnknownTarget, UsageError
from relayctl.store.fleet import Fleet
from relayctl.store.history import History
from relayctl.store.inquiry import Inquiry
from relayctl.store.lookup import Lookup
from relayctl.store.outputs import Outputs

if TYPE_CHECKING:
    import redis

    from relayctl.core.output import KeptOutput
    from relayctl.core.record import Record
    from relayctl.core.verdict import Judgement
    from relayctl.store.keys import Keys

Run = tuple[str, Slot]
"""A run of an app: its message and slot."""


class Logs:
    """Over one client. Raises UnknownTarget, UsageError, BrokerUnavailable or BrokerRefused."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._outputs = Outputs(client, keys)
        self._history = History(client, keys)
        self._inquiry = Inquiry(client, keys)
        self._lookup = Lookup(client, keys)
        self._fleet = Fleet(client, keys)

    def newest(self, app: str, name: str, *, is_waiting_meant: bool = False) -> RunLog | None:
        """The run of a schedule or handler that was published last and has begun; None where there never was one.

        With `is_waiting_meant` also one that has not begun.
        """
        found: set[Run] = set()
        for slots in self._meant(app, name):
            found.update((kept.message, Slot(kept.slot)) for kept in self._kept(app, slots))
            found.update(self._newest_on_record(app, slots))
            found.update(self._outputs.underway(app, slots, is_waiting_meant=is_waiting_meant))
        if not found:
            return None
        message, slot = max(found, key=lambda run: message_order(run[0]))
        return self._run(app, slot, message)

    def of_firings(self, app: str, name: str, wanted: datetime | date | None) -> list[RunLog]:
        """The runs of the firing at an instant, of those of a day in the schedule's zone, or of the last one due."""
        schedules = [slot.schedule for slots in self._meant(app, name) for slot in slots if slot.kind is Kind.SCHEDULE]
        if not schedules:
            raise UsageError(
                f"{app}/{name} is no schedule, so it has no instants",
                help=f"relayctl logs {app}/{name}@MESSAGE; relayctl history {app}/{name} --format json lists them",
            )
        return [run for schedule in schedules if schedule for run in self._of_schedule(app, schedule, wanted)]

    def of_message(self, app: str, name: str, message: str) -> RunLog:
        """The run of a schedule or handler that has this message."""
        for slots in self._meant(app, name):
            for slot in slots:
                run = self._run(app, slot, message)
                if run.attempts or run.record is not None or run.begun or not run.is_over:
                    return run
        raise UsageError(
            f"nothing is known of a run of {app}/{name} with message {message}",
            help=f"relayctl history {app}/{name} --format json lists those on record",
        )

    def last_attempt(self, app: str, slot: Slot, message: str) -> KeptOutput | None:
        """The last attempt of a run of which output is kept."""
        kept = self._outputs.of_run(app, slot, message)
        return kept[-1] if kept else None

    def again(self, run: RunLog) -> RunLog:
        """The same run as it is now; of a firing that was awaited, the run that it has since."""
        if not run.message and run.scheduled_at is not None:
            return self._of_schedule(run.app, run.name, run.scheduled_at)[-1]
        return replace(self._run(run.app, run.slot, run.message, run.zone), judgement=run.judgement)

    # What a name means

    def _meant(self, app: str, name: str) -> list[tuple[Slot, ...]]:
        """The slots of a schedule, else those of an event handler and of the schedules that run it."""
        try:
            if self._lookup.any(app, name).is_schedule:
                return [_slots_of(name)]
        except UnknownTarget:
            schedules = self._run_by(app, name)
            if not schedules and not self._outputs.has_handler(app, name):
                raise
        else:
            schedules = self._run_by(app, name)
        return [(Slot(name),), *schedules]

    def _run_by(self, app: str, handler: str) -> list[tuple[Slot, ...]]:
        """The schedules of an app that run this handler, as live workers tell."""
        reports = self._fleet.running(record.id for record in self._fleet.records())
        names = {
            name
            for apps in reports.values()
            if app in apps
            for name, fields in apps[app].schedules.items()
            if fields.get("handler") == handler
        }
        return [_slots_of(name) for name in sorted(names)]

    # Runs

    def _of_schedule(self, app: str, schedule: str, wanted: datetime | date | None) -> list[RunLog]:
        fate = self._inquiry.fate(app, schedule, wanted)
        kept = [each for each in self._outputs.of_schedule(app, schedule) if each.kind is Kind.SCHEDULE]
        slot = Slot.of_schedule(schedule)
        found: list[RunLog] = []
        for judgement in fate.firings:
            # A replay is another message for the same instant.
            at = instant_text(judgement.at)
            messages = {each.message for each in kept if each.scheduled_at == at} | {judgement.message}
            runs = [self._run(app, slot, message, fate.zone) for message in sorted(messages - {""}, key=message_order)]
            found += [_judged(run, judgement) for run in runs] or [_unpublished(app, slot, judgement, fate.zone)]
        return found

    def _run(self, app: str, slot: Slot, message: str, zone: tzinfo | None = None) -> RunLog:
        # The end is asked for before the output: what is over then has its last lines here.
        standing = self._outputs.standing(app, slot, message)
        attempts = self._outputs.of_run(app, slot, message)
        record = self._record(app, slot, message) if standing.is_over else None
        name = slot.schedule or slot.text
        texts = [kept.scheduled_at for kept in attempts if kept.scheduled_at]
        at = record.scheduled_at if record else None
        return RunLog(
            app=app,
            name=name,
            slot=slot,
            message=message,
            scheduled_at=at or (instant_from_text(texts[0]) if texts else None),
            attempts=tuple(attempts),
            state=standing.state,
            begun=standing.attempts,
            record=record,
            zone=zone or (self._zone(app, name) if slot.schedule else UTC),
            older_ms=self._older_ms(app, slot) if standing.is_over and not attempts else None,
        )

    def _older_ms(self, app: str, slot: Slot) -> int | None:
        """What was written before this may have been evicted: the start of the oldest output that tells."""
        own = self._kept(app, (slot,))
        marks = [kept.finished_ms or kept.started_ms for kept in own[:1]]
        oldest = self._outputs.oldest_ms()
        return max([*marks, *([] if oldest is None else [oldest])], default=None)

    def _zone(self, app: str, schedule: str) -> tzinfo:
        return self._inquiry.zone(app, schedule)

    def _kept(self, app: str, slots: Sequence[Slot]) -> list[KeptOutput]:
        schedule = slots[0].schedule
        if schedule is None:
            return self._outputs.of_handler(app, slots[0].text)
        return self._outputs.of_schedule(app, schedule)

    def _record(self, app: str, slot: Slot, message: str) -> Record | None:
        found = self._records(app, slot, lambda record: record.message == message)
        return found[0] if found else None

    def _newest_on_record(self, app: str, slots: Sequence[Slot]) -> list[Run]:
        found = self._records(app, slots[0], lambda record: record.started_at is not None)
        return [(record.message, slots[-1] if record.kind == "manual" else slots[0]) for record in found]

    def _records(self, app: str, slot: Slot, wanted: Callable[[Record], bool]) -> list[Record]:
        if slot.schedule is None:
            return self._history.of_handler(app, slot.text, limit=1, wanted=wanted)
        return self._history.of_schedule(app, slot.schedule, limit=1, wanted=wanted)


def _slots_of(schedule: str) -> tuple[Slot, ...]:
    return Slot.of_schedule(schedule), Slot.of_manual(schedule)


def _judged(run: RunLog, judgement: Judgement) -> RunLog:
    return replace(run, scheduled_at=judgement.at, judgement=judgement)


def _unpublished(app: str, slot: Slot, judgement: Judgement, zone: tzinfo) -> RunLog:
    return RunLog(
        app=app,
        name=slot.schedule or slot.text,
        slot=slot,
        message="",
        state="awaited" if judgement.is_awaited else "over",
        scheduled_at=judgement.at,
        judgement=judgement,
        record=judgement.record,
        zone=zone,
    )
