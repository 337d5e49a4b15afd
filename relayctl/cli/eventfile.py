"""An event that a user hands over in a file or on stdin: one JSON object, taken as it is written, within a size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relayctl.cli.inputfile import name_of, read_bounded
from relayctl.core.jsontext import parse_json
from relayctl.core.occurrence import MANUAL_SOURCE, SCHEDULE_SOURCE
from relayctl.errors import UsageError

_SHAPE = 'an event is one JSON object, such as {"event_name": "INSERT"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The event's text as it goes into the stream, and what it says."""

    text: str
    value: Mapping[str, Any]


def read_event_file(source: Path, max_bytes: int, *, may_be_ours: bool = False) -> Event:
    """The event in `source`, or on stdin for `-`. UsageError says what is wrong with it and never repeats it.

    `may_be_ours` takes what relayctl itself writes as well: a trial of a handler needs it, the stream must not get it.
    """
    name = name_of(source)
    raw = read_bounded(
        source,
        max_bytes,
        size=f"{max_bytes} bytes, the most that is taken",
        way_out="send less and keep the rest elsewhere, or raise RELAYCTL_MAX_EVENT_BYTES here and for the workers",
    )
    try:
        # The text is sent as written: reading it and writing it anew could change a number.
        text = raw.decode("utf-8-sig").strip()
        value = parse_json(text)
    except UnicodeDecodeError:
        raise UsageError(f"{name}: not UTF-8", help=_SHAPE) from None
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise UsageError(f"{name}: not JSON{where}", help=_SHAPE) from None
    if not isinstance(value, dict):
        raise UsageError(f"{name}: found {_kind(value)} where an object belongs", help=_SHAPE)
    if not may_be_ours and value.get("source") in (SCHEDULE_SOURCE, MANUAL_SOURCE):
        raise UsageError(
            f"{name}: source {value['source']} is kept for what relayctl itself writes",
            help="give the event another source, or leave it out",
        )
    return Event(text=text, value=value)


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "a list"
    return "text" if isinstance(value, str) else "a single value"
