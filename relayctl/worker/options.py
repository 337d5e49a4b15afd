"""What a worker is told from outside, once; it reads no setting itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a worker is told from outside."""

    drain: timedelta
    resync: timedelta | None
    cap: timedelta
    horizon: timedelta
    max_event_bytes: int
    max_children: int
    base_environ: Mapping[str, str]
    outbox: Path
    min_replica_acks: int = 0
