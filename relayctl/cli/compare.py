"""How croniter would fire the same line: the door to that library, used by `explain --compare` alone."""

from __future__ import annotations

from datetime import UTC, datetime

from relayctl.core.cron import Cron
from relayctl.core.forecast import zone_of
from relayctl.render.explain import Other


def by_croniter(cron: Cron, now: datetime, count: int) -> Other:
    """Its next firings, or the reason why it refuses the line."""
    from croniter import croniter

    zone = zone_of(cron)
    try:
        schedule = croniter(cron.expression.strip(), now.astimezone(zone))
        found = tuple(schedule.get_next(datetime).astimezone(UTC) for _ in range(count))
    except Exception as error:  # noqa: BLE001 - whatever it raises is its answer
        return Other(name="croniter", next_at=(), refusal=type(error).__name__)
    return Other(name="croniter", next_at=found)
