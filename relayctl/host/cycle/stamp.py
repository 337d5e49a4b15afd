"""When a job was last done and how that ended, in a file, so that a restart neither repeats it nor shifts its rhythm.

Whatever is wrong with the file, the job counts as due: once too often is better than never.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.host.wholefile import write_whole

if TYPE_CHECKING:
    from relayctl.host.clock import Clock

FORMAT_VERSION = 1
_MOST_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """The last time the job came to an end. `count` is another one each time, also where clocks were set back."""

    at: datetime
    is_ok: bool
    count: int


def remaining(last: LastRun | None, interval: timedelta, now: datetime) -> timedelta:
    """How long until the job is due: zero if it is, never more than `interval`.

    After a failure it is due at once. A time that lies ahead was written by a clock that was wrong, and says nothing.
    """
    if last is None or last.at > now or not last.is_ok:
        return timedelta(0)
    return max(timedelta(0), interval - (now - last.at))


def is_due(last: LastRun | None, interval: timedelta, now: datetime) -> bool:
    """Whether nothing remains."""
    return remaining(last, interval, now) == timedelta(0)


class Stamp:
    """One such file. Only whoever has the job to itself records; anybody reads."""

    __slots__ = ("_clock", "path")

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._clock = clock

    def record(self, *, is_ok: bool) -> LastRun:
        """It came to an end now. OSError where that cannot be written."""
        before = self.last()
        run = LastRun(at=self._clock.now(), is_ok=is_ok, count=1 if before is None else before.count + 1)
        document = {"v": FORMAT_VERSION, "at": run.at.isoformat(), "ok": run.is_ok, "count": run.count}
        write_whole(self.path, json.dumps(document).encode())
        return run

    def last(self) -> LastRun | None:
        """What was recorded last; None where that is nothing, or cannot be read."""
        try:
            with self.path.open("rb") as opened:
                document = json.loads(opened.read(_MOST_BYTES))
            at, is_ok, count = datetime.fromisoformat(document["at"]), document["ok"], document["count"]
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        is_sound = document["v"] == FORMAT_VERSION and at.utcoffset() is not None
        if not is_sound or not isinstance(is_ok, bool) or type(count) is not int:
            return None
        return LastRun(at=at.astimezone(UTC), is_ok=is_ok, count=count)
