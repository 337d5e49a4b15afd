"""A schedule text of another tool as `cron` or `every` of a template, by what the evaluator itself would suggest."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from relayctl.core.cron import Cron, Every
from relayctl.core.cronerror import CronError
from relayctl.core.crontext import portable
from relayctl.core.zones import zone_names

_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_RANDOM = re.compile(r"([0-9]*)~([0-9]*)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """When a job fires: one of `cron` and `every`; `remark` says what was written anew, empty where nothing was."""

    cron: str = ""
    every: str = ""
    timezone: str = "UTC"
    remark: str = ""


class NoTiming(Exception):
    """The text cannot be carried; the message says why, for people."""


def read_timing(text: str, zone: str, *, seed: str) -> Timing:
    """What `text` means in `zone`, or NoTiming. `seed` settles what the source leaves to chance (`~`)."""
    settled = _settled(text, seed)
    keys = _meant(settled)
    chosen = keys.get("timezone", zone)
    if chosen not in zone_names():
        raise NoTiming(f'the zone "{_short(chosen)}" is not in the IANA database')
    remark = "" if (keys.get("cron") or keys.get("every")) == text else f'"{_short(text)}" is written as {_shown(keys)}'
    try:
        if "every" in keys:
            Every.parse(keys["every"])
            return Timing(every=keys["every"], remark=remark)
        if not Cron.parse(keys["cron"], chosen).can_fire:
            raise NoTiming(f'"{_short(text)}" never fires')
    except CronError as error:
        raise NoTiming(_reason(text, error)) from None
    return Timing(cron=keys["cron"], timezone=chosen, remark=remark)


def _meant(text: str) -> Mapping[str, str]:
    keys = portable(text) if text.strip() else None
    if keys and ("cron" in keys or "every" in keys):
        return keys
    try:
        Cron.parse(text)
    except CronError as error:
        raise NoTiming(_reason(text, error)) from None
    return {"cron": text}


def _reason(text: str, error: CronError) -> str:
    way_out = f"; {error.help}" if error.help else ""
    return f'"{_short(text)}": {error.message}{way_out}'


def _settled(text: str, seed: str) -> str:
    """Random values (`~`, `0~29`) replaced by one in their range that stays: the tools draw once per start."""
    fields = text.split()
    if len(fields) != len(_BOUNDS) or "~" not in text:
        return text
    chance = zlib.crc32(seed.encode(errors="surrogatepass"))
    for place, (low, high) in enumerate(_BOUNDS):
        found = _RANDOM.fullmatch(fields[place])
        if found is None:
            continue
        first, last = int(found[1] or low), int(found[2] or high)
        if first <= last:
            fields[place] = str(first + chance % (last - first + 1))
    return " ".join(fields)


def _shown(keys: Mapping[str, str]) -> str:
    return ", ".join(f'{key}: "{value}"' for key, value in keys.items())


def _short(text: str) -> str:
    shown = "".join(char if char.isprintable() else "?" for char in text)
    return shown if len(shown) <= 60 else f"{shown[:59]}…"
