"""IANA zones by name, from the tzdata package alone, as stretches of constant UTC offset in epoch seconds.

The host's zone files are never opened, so results do not depend on the machine; no zone is ever guessed.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from importlib import import_module, resources
from io import BytesIO
from zoneinfo import ZoneInfo

from relayctl.core.cronerror import CronError
from relayctl.core.zonenames import LOCAL_NAMES, likely_names

EARLIEST_S = -62_135_337_600  # 0001-01-04, so that every local time around it can be written
LATEST_S = 253_402_041_600  # 9999-12-29
_REFUSED = frozenset({"Factory", "localtime", "posixrules"})
_BLOCK_S = 1 << 25  # a good year
_SAMPLE_S = 2 * 86_400  # zone data never changes an offset twice within six days
_MARGIN_S = _SAMPLE_S  # stretches know of a shift this long before their block begins
_TZIF_HEADER = struct.Struct(">4sc15x6l")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A time of one UTC offset, [begin, end) in epoch seconds; `shift` is this offset less the one before, in seconds.

    A stretch may be a part of a longer one: it then begins without a shift, and the next one too.
    """

    begin: int
    end: int
    offset: int
    shift: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Zone:
    """A zone of the IANA database. One object per name: compare by identity or by `name`."""

    name: str
    info: ZoneInfo
    digest: str
    always: Stretch | None
    """The only stretch, where the offset never changes."""

    def stretch_at(self, epoch: int) -> Stretch:
        """The stretch that holds this instant, which must lie within EARLIEST_S and LATEST_S."""
        if self.always is not None:
            return self.always
        begins, stretches = _block(self, epoch // _BLOCK_S)
        return stretches[bisect_right(begins, epoch) - 1]


@lru_cache(maxsize=1024)
def zone_named(name: str) -> Zone:
    """The zone of this exact IANA name; a CronError (RLY301, RLY302) offers the nearest names."""
    if name not in zone_names():
        raise _refusal(name)
    data = _zone_bytes(name)
    info = ZoneInfo.from_file(BytesIO(data), key=name)
    always = None
    if _never_changes(data):
        always = Stretch(begin=EARLIEST_S, end=LATEST_S + 1, offset=_offset_at(info, 0), shift=0)
    return Zone(name=name, info=info, digest=sha256(data).hexdigest(), always=always)


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Every name that a template may use."""
    listed = resources.files("tzdata").joinpath("zones").read_text("ascii").split()
    return frozenset(listed) - _REFUSED


def zone_digest(name: str) -> str:
    """SHA-256 of the zone's data: two hosts with equal digests agree on every instant."""
    return zone_named(name).digest


def tzdata_version() -> str:
    """The release of the IANA database in use, such as `2026f`."""
    return str(import_module("tzdata").IANA_VERSION)


def _zone_bytes(name: str) -> bytes:
    return resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()


def _never_changes(data: bytes) -> bool:
    """Whether a TZif file of version 2 or later lists no transition and ends in a rule without summer time."""
    _, version, *first = _TZIF_HEADER.unpack_from(data)
    if version < b"2":
        return False
    utc_marks, standard_marks, leaps, transitions, types, letters = first
    second = _TZIF_HEADER.size + transitions * 5 + types * 6 + letters + leaps * 8 + standard_marks + utc_marks
    later_transitions = _TZIF_HEADER.unpack_from(data, second)[5]
    return later_transitions == 0 and b"," not in data.rstrip(b"\n").rpartition(b"\n")[2]


def _offset_at(info: ZoneInfo, epoch: int) -> int:
    offset = datetime.fromtimestamp(epoch, info).utcoffset()
    assert offset is not None
    return offset.days * 86_400 + offset.seconds


@lru_cache(maxsize=4096)
def _block(zone: Zone, number: int) -> tuple[tuple[int, ...], tuple[Stretch, ...]]:
    """The stretches of about a year, with their beginnings to search by.

    Offsets are asked for in UTC, where each instant has exactly one; a shift between two samples is found by halving.
    """
    info = zone.info
    begin = max(number * _BLOCK_S - _MARGIN_S, EARLIEST_S)
    end = min((number + 1) * _BLOCK_S, LATEST_S + 1)
    turns = [(begin, _offset_at(info, begin), 0)]
    at = begin
    while at < end - 1:
        ahead = min(at + _SAMPLE_S, end - 1)
        offset, before = _offset_at(info, ahead), turns[-1][1]
        if offset != before:
            turns.append((_shift_between(info, at, ahead), offset, offset - before))
        at = ahead
    ends = [turn[0] for turn in turns[1:]] + [end]
    stretches = tuple(
        Stretch(begin=since, end=until, offset=offset, shift=shift)
        for (since, offset, shift), until in zip(turns, ends, strict=True)
    )
    return tuple(stretch.begin for stretch in stretches), stretches


def _shift_between(info: ZoneInfo, low: int, high: int) -> int:
    old = _offset_at(info, low)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset_at(info, middle) == old:
            low = middle
        else:
            high = middle
    return high


def _refusal(name: str) -> CronError:
    span = (0, len(name))
    shown = name if len(name) <= 80 else name[:80] + "…"
    likely = likely_names(name, zone_names())
    best = {"timezone": likely.best} if likely.best is not None else None
    if name.strip().lower() in LOCAL_NAMES:
        return CronError(
            f'time zone "{shown}" means another place on every machine',
            code="RLY302",
            help="name the place, as in timezone: Europe/Rome, or write timezone: UTC",
            span=span,
        )
    if not name.strip():
        return CronError(
            "the time zone is empty", code="RLY301", help="leave the key out for UTC, or name an IANA zone", span=span
        )
    return CronError(f'unknown time zone "{shown}"', code="RLY301", help=likely.help, span=span, suggestion=best)
