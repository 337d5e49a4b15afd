"""When a schedule fires: `Cron` and `Every`, each answering the same four questions about instants.

Both are values without a clock. Parsing is `crongrammar`, explaining a refusal `crontext`, the calendar `cronwall`,
offsets `zones`; here wall minutes become instants by the rules for shifts. Everything works on epoch seconds inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, TypeVar

from relayctl.core.croncanon import canonical_fields
from relayctl.core.cronerror import CronError
from relayctl.core.crongrammar import Fault, FieldValue, read_expression
from relayctl.core.crontext import explain
from relayctl.core.cronwall import WallPattern, wall_pattern
from relayctl.core.duration import DurationError, format_duration, parse_duration
from relayctl.core.zones import EARLIEST_S, LATEST_S, Stretch, Zone, zone_named

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["EVALUATOR_VERSION", "Cron", "CronError", "Dst", "Every", "Fold", "Gap", "ShiftEffect", "ShiftKind"]

EVALUATOR_VERSION = "1"
"""Changes whenever the same expression and zone data could give another firing."""

LONGEST_SHIFT_S = 180 * 60
"""A longer shift is a correction of the calendar: nothing is caught up, nothing held back."""

_DAY_S = 86_400
_REMEMBERED = 8
_UNKNOWN = -(1 << 62)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Choice = TypeVar("_Choice", bound=Enum)


class Gap(Enum):
    """What a wall time does that a forward shift skips."""

    SKIP = "skip"
    RUN = "run"


class Fold(Enum):
    """In which passes a wall time fires that a backward shift repeats."""

    FIRST = "first"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dst:
    """The written habit at shifts; None leaves it to the rule for this job (fixed time or star)."""

    gap: Gap | None = None
    fold: Fold | None = None

    @classmethod
    def from_mapping(cls, written: Mapping[str, object]) -> Dst:
        """Read `{gap: skip | run, fold: first | both}`; anything else is a CronError (RLY104)."""
        unknown = sorted(str(key) for key in written if key not in {"gap", "fold"})
        if unknown:
            raise CronError(f'dst has no key "{unknown[0]}"', code="RLY104", help="its keys are gap and fold")
        return cls(gap=_choice(Gap, written, "gap"), fold=_choice(Fold, written, "fold"))


class ShiftKind(Enum):
    """Which way the clock goes."""

    GAP = "gap"
    FOLD = "fold"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftEffect:
    """What one shift of the clock does to one schedule.

    `walls` are the matching local minutes that are skipped or repeated, as `2027-03-14T02:30`, and `on` the date of the
    first. `fires_at` are the instants at which it fires for them, `silent_at` the repeated passes at which it does not.
    """

    kind: ShiftKind
    shift_at: datetime
    shift: timedelta
    on: date
    walls: tuple[str, ...]
    fires_at: tuple[datetime, ...]
    silent_at: tuple[datetime, ...] = ()


class _InSeconds(Protocol):
    def next_after_s(self, epoch: int) -> int | None: ...
    def latest_at_or_before_s(self, epoch: int) -> int | None: ...
    def is_firing_s(self, epoch: int) -> bool: ...


class _Answers:
    """The four questions about instants, answered by those about whole epoch seconds."""

    __slots__ = ()

    def next_after(self: _InSeconds, instant: datetime) -> datetime | None:
        """The first firing later than this instant; None if there is none."""
        return _instant(self.next_after_s(_floor(instant)))

    def latest_at_or_before(self: _InSeconds, instant: datetime) -> datetime | None:
        """The last firing that is not later than this instant; None if there is none."""
        return _instant(self.latest_at_or_before_s(_floor(instant)))

    def is_firing(self: _InSeconds, instant: datetime) -> bool:
        """Whether this very instant is a firing; an instant with a fraction of a second never is."""
        return instant.microsecond == 0 and self.is_firing_s(_floor(instant))

    def between(self: _InSeconds, after: datetime, until: datetime) -> Iterator[datetime]:
        """The firings later than `after` and not later than `until`, in order."""
        at, last = self.next_after_s(_floor(after)), _floor(until)
        while at is not None and at <= last:
            yield _at(at)
            at = self.next_after_s(at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron(_Answers):
    """A cron expression in a zone. Equal values fire alike; `expression` and `dst` are as they were written.

    `canonical` is one text for all expressions of one meaning. `is_fixed`: neither minute nor hour begins with `*`.
    Instants before the year 1 or after 9999, less a few days, count as never.
    """

    expression: str = field(compare=False)
    timezone: str
    dst: Dst = field(compare=False)
    canonical: str
    is_fixed: bool = field(compare=False)
    runs_in_gap: bool
    fires_once_in_fold: bool
    _pattern: WallPattern = field(compare=False, repr=False)
    _zone: Zone = field(compare=False, repr=False)
    # Schedules with one expression share this object and are asked about the same moments, a whole herd at once.
    _following: dict[int, int | None] = field(default_factory=dict, init=False, compare=False, repr=False)

    @classmethod
    def parse(cls, expression: str, timezone: str = "UTC", dst: Dst | Mapping[str, object] | None = None) -> Cron:
        """Read an expression; a CronError says what does not fit and the way out. Equal calls share one object."""
        habit = Dst.from_mapping(dst) if isinstance(dst, Mapping) else dst or Dst()
        return _parse(expression, timezone, habit)

    @property
    def words(self) -> str:
        """As it is written, with its zone where that is not UTC."""
        text = " ".join(self.expression.split())
        return text if self.timezone == "UTC" else f"{text} {self.timezone}"

    @property
    def can_fire(self) -> bool:
        """Whether it ever fires; 30 February never does."""
        return self._pattern.can_match

    @property
    def zone_digest(self) -> str:
        """The digest of the zone data that the answers rest on."""
        return self._zone.digest

    def next_after_s(self, epoch: int) -> int | None:
        """`next_after` in whole epoch seconds."""
        if not self._pattern.can_match:
            return None
        known = self._following.get(epoch, _UNKNOWN)
        if known != _UNKNOWN:
            return known
        found = self._search_after(epoch)
        if len(self._following) >= _REMEMBERED:
            self._following.clear()
        self._following[epoch] = found
        return found

    def _search_after(self, epoch: int) -> int | None:
        zone, low = self._zone, epoch + 1
        low = max(low, EARLIEST_S)
        while low <= LATEST_S:
            stretch = zone.stretch_at(low)
            found = self._first_in(stretch, low)
            if found is not None:
                return found
            low = self._leap_forward(stretch)
        return None

    def latest_at_or_before_s(self, epoch: int) -> int | None:
        """`latest_at_or_before` in whole epoch seconds."""
        zone, high = self._zone, epoch
        if not self._pattern.can_match:
            return None
        high = min(high, LATEST_S)
        while high >= EARLIEST_S:
            stretch = zone.stretch_at(high)
            found = self._last_in(stretch, high)
            if found is not None:
                return found
            high = self._leap_back(stretch)
        return None

    def is_firing_s(self, epoch: int) -> bool:
        """`is_firing` in whole epoch seconds."""
        if not EARLIEST_S <= epoch <= LATEST_S:
            return False
        stretch = self._zone.stretch_at(epoch)
        minute, second = divmod(epoch + stretch.offset, 60)
        if second:
            return False
        if self._pattern.matches(minute):
            return epoch >= self._fold_end(stretch)
        return epoch < stretch.begin + 60 and self._gap_firing(stretch) == epoch

    def transitions_affecting(self, after: datetime, until: datetime) -> Iterator[ShiftEffect]:
        """The shifts later than `after` and not later than `until` that skip or repeat a matching wall minute."""
        seen, last = _floor(after), min(_floor(until), LATEST_S)
        at = max(seen, EARLIEST_S)
        while at <= last:
            stretch = self._zone.stretch_at(at)
            if stretch.shift and seen < stretch.begin <= last:
                seen = stretch.begin
                effect = self._effect_of(stretch)
                if effect is not None:
                    yield effect
            at = stretch.end

    def _first_in(self, stretch: Stretch, low: int) -> int | None:
        offset = stretch.offset
        if stretch.shift > 0 and low < stretch.begin + 60:
            moved = self._gap_firing(stretch)
            if moved is not None and moved >= low:
                return moved  # the first minute of the stretch: nothing can precede it
        elif stretch.shift < 0:
            low = max(low, self._fold_end(stretch))
        minute = self._pattern.at_or_after(-(-(low + offset) // 60))
        if minute is None:
            return None
        found = minute * 60 - offset
        return found if found < stretch.end else None

    def _last_in(self, stretch: Stretch, high: int) -> int | None:
        offset = stretch.offset
        minute = self._pattern.at_or_before((high + offset) // 60)
        if minute is not None:
            found = minute * 60 - offset
            if found >= self._fold_end(stretch):
                return found
        moved = self._gap_firing(stretch)
        return moved if moved is not None and moved <= high else None

    def _fold_end(self, stretch: Stretch) -> int:
        """Where firings of this stretch may begin: after the second pass, for a schedule that leaves it out."""
        if -LONGEST_SHIFT_S <= stretch.shift < 0 and self.fires_once_in_fold:
            return stretch.begin - stretch.shift
        return stretch.begin

    def _gap_firing(self, stretch: Stretch) -> int | None:
        """The instant that stands for the wall minutes skipped just before this stretch."""
        if not 0 < stretch.shift <= LONGEST_SHIFT_S or not self.runs_in_gap:
            return None
        resumed = stretch.begin + stretch.offset
        skipped = self._pattern.at_or_after(-(-(resumed - stretch.shift) // 60))
        if skipped is None or skipped * 60 >= resumed:
            return None
        return -(-resumed // 60) * 60 - stretch.offset

    def _leap_forward(self, stretch: Stretch) -> int:
        """Where to go on: the end of the stretch, or a day before the next matching wall minute in any zone.

        Two days are searched again, since a shift can turn the clock back by one.
        """
        minute = self._pattern.at_or_after((stretch.end + stretch.offset - 2 * _DAY_S) // 60)
        return LATEST_S + 1 if minute is None else max(stretch.end, minute * 60 - _DAY_S)

    def _leap_back(self, stretch: Stretch) -> int:
        minute = self._pattern.at_or_before((stretch.begin + stretch.offset + 2 * _DAY_S) // 60)
        return EARLIEST_S - 1 if minute is None else min(stretch.begin - 1, minute * 60 + _DAY_S)

    def _effect_of(self, stretch: Stretch) -> ShiftEffect | None:
        local = stretch.begin + stretch.offset  # the clock just after the shift
        low, high = sorted((local, local - stretch.shift))
        minutes = tuple(self._walls(low, high))
        if not minutes:
            return None
        fires: list[int] = []
        silent: list[int] = []
        if stretch.shift > 0:
            moved = self._gap_firing(stretch)
            fires += [] if moved is None else [moved]
        else:
            for minute in minutes:
                fires.append(minute * 60 - stretch.offset + stretch.shift)
                second = minute * 60 - stretch.offset
                (fires if second >= self._fold_end(stretch) else silent).append(second)
        return ShiftEffect(
            kind=ShiftKind.GAP if stretch.shift > 0 else ShiftKind.FOLD,
            shift_at=_at(stretch.begin),
            shift=timedelta(seconds=stretch.shift),
            on=_at(minutes[0] * 60).date(),
            walls=tuple(_at(minute * 60).strftime("%Y-%m-%dT%H:%M") for minute in minutes),
            fires_at=tuple(_at(second) for second in sorted(fires)),
            silent_at=tuple(_at(second) for second in silent),
        )

    def _walls(self, low: int, high: int) -> Iterator[int]:
        minute = self._pattern.at_or_after(-(-low // 60))
        while minute is not None and minute * 60 < high:
            yield minute
            minute = self._pattern.at_or_after(minute + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Every(_Answers):
    """A firing at each whole multiple of `seconds` since 1970-01-01T00:00:00Z, on every machine alike."""

    seconds: int

    def __post_init__(self) -> None:
        if self.seconds < 1:
            raise DurationError("every is below one second", help='write "1s" or more', code="RLY108")

    @classmethod
    def parse(cls, text: str) -> Every:
        """Read a duration of whole seconds from `1s` up; anything else is a DurationError."""
        length = parse_duration(text)
        if length.microseconds:
            whole = timedelta(seconds=max(1, round(length.total_seconds())))
            raise DurationError(
                f'every: "{text}" is not a whole number of seconds',
                help=f'write whole seconds, as in "{format_duration(whole)}"',
                code="RLY108",
            )
        return cls(seconds=length.days * _DAY_S + length.seconds)

    @property
    def canonical(self) -> str:
        """One text for all spellings of the same interval: `900s`."""
        return f"{self.seconds}s"

    @property
    def words(self) -> str:
        """As one would write it: `every 15m`."""
        return f"every {format_duration(timedelta(seconds=self.seconds))}"

    @property
    def can_fire(self) -> bool:
        """Always: an interval never runs out."""
        return True

    def next_after_s(self, epoch: int) -> int | None:
        """`next_after` in whole epoch seconds."""
        at = max(epoch, EARLIEST_S - 1)
        found = at - at % self.seconds + self.seconds
        return found if found <= LATEST_S else None

    def latest_at_or_before_s(self, epoch: int) -> int | None:
        """`latest_at_or_before` in whole epoch seconds."""
        at = min(epoch, LATEST_S)
        found = at - at % self.seconds
        return found if found >= EARLIEST_S else None

    def is_firing_s(self, epoch: int) -> bool:
        """`is_firing` in whole epoch seconds."""
        return EARLIEST_S <= epoch <= LATEST_S and epoch % self.seconds == 0

    def transitions_affecting(self, after: datetime, until: datetime) -> Iterator[ShiftEffect]:  # noqa: ARG002
        """None: an interval knows no wall clock."""
        return iter(())


@lru_cache(maxsize=16_384)
def _parse(expression: str, timezone: str, dst: Dst) -> Cron:
    try:
        fields = read_expression(expression)
    except Fault:
        raise explain(expression) from None
    zone = zone_named(timezone)
    minute, hour, *_ = fields
    is_fixed = not (minute.leads_with_star or hour.leads_with_star)
    return Cron(
        expression=expression,
        timezone=timezone,
        dst=dst,
        canonical=canonical_fields(fields),
        is_fixed=is_fixed,
        runs_in_gap=is_fixed if dst.gap is None else dst.gap is Gap.RUN,
        fires_once_in_fold=is_fixed if dst.fold is None else dst.fold is Fold.FIRST,
        _pattern=_pattern_of(fields),
        _zone=zone,
    )


def _pattern_of(fields: tuple[FieldValue, ...]) -> WallPattern:
    minute, hour, day, month, weekday = fields
    return wall_pattern(
        minutes=minute.mask,
        hours=hour.mask,
        days=day.mask,
        months=month.mask,
        weekdays=weekday.mask,
        either_day=not (day.is_star or weekday.is_star),
    )


def _choice(kind: type[_Choice], written: Mapping[str, object], key: str) -> _Choice | None:
    value = written.get(key)
    if value is None:
        return None
    for member in kind:
        if value is member or value == member.value:
            return member
    allowed = " or ".join(str(member.value) for member in kind)
    raise CronError(f'dst.{key} is "{value}"', code="RLY104", help=f"write {allowed}")


def _floor(instant: datetime) -> int:
    """Whole epoch seconds, downwards: no firing lies within a second, so no answer changes."""
    if instant.tzinfo is None:
        raise ValueError("an instant needs a time zone: pass an aware datetime")
    passed = instant - _EPOCH
    return passed.days * _DAY_S + passed.seconds


def _at(epoch: int) -> datetime:
    return _EPOCH + timedelta(seconds=epoch)


def _instant(epoch: int | None) -> datetime | None:
    return None if epoch is None else _at(epoch)
