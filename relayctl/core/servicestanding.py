"""How the replicas of a service stand on one worker, as it reports it and as people are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relayctl.core.service import Phase, Replica, Trouble, Wanted, outdated

_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStanding:
    """`up` of `wanted` replicas work; `old` of them are of the definition before. `restarts` counts since the worker
    started. `detail` says what is wrong, and is empty where nothing is.
    """

    app: str
    service: str
    wanted: int
    up: int
    old: int = 0
    restarts: int = 0
    is_looping: bool = False
    detail: str = ""

    @property
    def name(self) -> str:
        """`app/service`."""
        return f"{self.app}/{self.service}"

    @property
    def is_well(self) -> bool:
        """Whether all of it runs, in its newest definition, and stays up."""
        return self.up >= self.wanted and not self.old and not self.is_looping

    @property
    def word(self) -> str:
        """Its state in one word."""
        if self.is_looping:
            return "looping"
        if self.old:
            return "replacing"
        return "up" if self.up >= self.wanted else "starting" if not self.detail else "failing"

    def to_row(self) -> list[Any]:
        """A short JSON form, since it is part of every heartbeat."""
        return [getattr(self, name) for name in self.__slots__]

    @classmethod
    def from_row(cls, row: list[Any]) -> ServiceStanding:
        """Read a row; what a newer worker has added at its end is left out."""
        return cls(**dict(zip(cls.__slots__, row, strict=False)))


def standing_of(
    app: str,
    service: str,
    wanted: Wanted,
    replicas: Mapping[int, Replica],
    troubles: Mapping[int, Trouble],
    restarts: int,
) -> ServiceStanding:
    """What is to be said of a service."""
    current = {index: it for index, it in troubles.items() if it.version == wanted.version and index < wanted.replicas}
    up = sum(1 for index, it in replicas.items() if it.phase is Phase.UP and index < wanted.replicas)
    old = outdated(wanted, replicas)
    return ServiceStanding(
        app=app,
        service=service,
        wanted=wanted.replicas,
        up=up,
        old=len(old),
        restarts=restarts,
        is_looping=any(it.is_loop for it in current.values()),
        detail=_detail(wanted, replicas, current, len(old)),
    )


def _detail(wanted: Wanted, replicas: Mapping[int, Replica], troubles: Mapping[int, Trouble], old: int) -> str:
    parts = []
    shown = [index for index, it in sorted(troubles.items()) if it.is_loop or not _is_up(wanted, replicas.get(index))]
    if shown:
        trouble = troubles[shown[0]]
        times = f" ({trouble.failures} times in a row)" if trouble.failures > 1 else ""
        where = f"replica {shown[0]}: " if wanted.replicas > 1 else ""
        more = f" (and {len(shown) - 1} more)" if len(shown) > 1 else ""
        parts.append(f"{where}{trouble.reason[:_LONGEST_REASON]}{times}{more}")
    if old and shown:
        parts.append(f"{old} of the definition before {'goes' if old == 1 else 'go'} on until the new one is up")
    return "; ".join(parts)


def _is_up(wanted: Wanted, replica: Replica | None) -> bool:
    return replica is not None and replica.phase is Phase.UP and replica.version == wanted.version
