"""Waits and orders that all workers must agree on: backoff, jitter, rendezvous rank. Pure arithmetic."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import timedelta

RANK_STEP = timedelta(milliseconds=200)
"""How long each further rank leaves the one before it to publish."""
RANK_LIMIT = timedelta(seconds=1)
"""The longest wait of any rank, so that dead peers cost at most this."""


def backoff_after(attempt: int, waits: Sequence[timedelta]) -> timedelta:
    """The wait after the failure of `attempt` (from 1); the last of `waits` repeats."""
    if not waits:
        return timedelta(0)
    return waits[min(attempt, len(waits)) - 1]


def jitter_of(occurrence_id: str, spread: timedelta) -> timedelta:
    """The offset of one occurrence in [0, `spread`), in whole milliseconds, the same on every worker."""
    spread_ms = spread // timedelta(milliseconds=1)
    if spread_ms <= 0:
        return timedelta(0)
    return timedelta(milliseconds=_hash(occurrence_id) % spread_ms)


def rank_of(worker: str, candidates: Iterable[str], subject: str) -> int:
    """The place (from 1) of `worker` among `candidates` for `subject`, by highest-random-weight hashing.

    A worker that is not among the candidates stands behind all of them. When one candidate leaves, only the subjects
    it was first for change hands.
    """
    own = _weight(worker, subject)
    return 1 + sum(1 for other in candidates if other != worker and _weight(other, subject) > own)


def delay_of_rank(rank: int) -> timedelta:
    """How long after its instant a worker of this rank acts."""
    return min(RANK_LIMIT, RANK_STEP * (rank - 1))


def _weight(worker: str, subject: str) -> tuple[int, str]:
    return (_hash(f"{worker}\0{subject}"), worker)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
