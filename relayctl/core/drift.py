"""Where a live worker runs something else than what is in force and most run. It says nothing of what files want."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from relayctl.core.comparison import NOTHING, is_same, trigger_of, trigger_text
from relayctl.core.description import Description
from relayctl.core.fieldchange import FieldChange, field_changes
from relayctl.core.plan import IT_IS, NOT_THERE, THERE, Action, Change, Item
from relayctl.core.running import Running, baseline


def deviations(running: Running) -> tuple[Change, ...]:
    """Where a live worker runs something else than what is in force and most run, in order of worker and app."""
    base = baseline(running)
    return tuple(drift(base, base, running))


def drift(desired: Mapping[str, Description], base: Mapping[str, Description], running: Running) -> Iterator[Change]:
    """Where a worker runs something else than what most run, and that is what the files want too."""
    for worker in sorted(running.workers):
        reports = running.workers[worker]
        if not reports:
            continue
        for app in sorted(base.keys() & desired.keys()):
            if app in reports or worker not in running.partial:
                yield from _app_drift(worker, app, desired[app], base[app], reports.get(app, NOTHING))


def _app_drift(
    worker: str, app: str, wanted: Description, common: Description, theirs: Description
) -> Iterator[Change]:
    for item, wants, commons, runs in (
        (Item.SCHEDULE, wanted.schedules, common.schedules, theirs.schedules),
        (Item.EVENT, wanted.events, common.events, theirs.events),
        (Item.SERVICE, wanted.services, common.services, theirs.services),
        (Item.APP, {"": wanted.settings}, {"": common.settings}, {"": theirs.settings} if theirs.settings else {}),
    ):
        for name in sorted({*wants, *runs}):
            want, run = wants.get(name), runs.get(name)
            if not is_same(commons.get(name), want) or is_same(run, want) or (item is Item.APP and run is None):
                continue
            fields = field_changes(run, want) if run is not None and want is not None else (_presence(run is not None),)
            yield Change(
                action=Action.RESTORE,
                item=item,
                app=app,
                name=name,
                fields=fields,
                worker=worker,
                trigger=trigger_of(want) if item is Item.SCHEDULE else None,
                when=trigger_text(want or run or {}) if item is Item.SCHEDULE else "",
                handler=(want or run or {}).get("handler", "") if item is Item.SCHEDULE else "",
            )


def _presence(is_there: bool) -> FieldChange:
    there, gone = (THERE, NOT_THERE) if is_there else (NOT_THERE, THERE)
    return FieldChange(name=IT_IS, before=there, after=gone)
