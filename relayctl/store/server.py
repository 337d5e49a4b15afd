"""What server answers: its kind and version against the floor, its eviction policy, and how its clock differs.

Asks only with INFO, TIME and a reading script, so the smallest documented ACL suffices. Changes nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from relayctl.errors import BrokerUnavailable, BrokerUnsuitable
from relayctl.store.failure import translate

if TYPE_CHECKING:
    import redis

    from relayctl.host.clock import Clock

FLOOR = {"redis": (7, 0), "valkey": (7, 2)}
_OFFSET_SAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What the connected server says of itself. `maxmemory_policy` is None where it does not say."""

    flavour: str
    version: tuple[int, ...]
    maxmemory_policy: str | None
    mode: str
    is_replica: bool
    pid: int | None
    replicas: int = 0
    """How many replicas were in step with it at that moment."""

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version))

    @property
    def is_evicting(self) -> bool:
        """Whether memory pressure may drop keys, and with them the record that an instant was published."""
        return self.maxmemory_policy not in {None, "noeviction"}


def parse_version(text: str) -> tuple[int, ...]:
    """The leading numbers of a version text; empty if there are none."""
    match = re.match(r"\s*v?(\d+(?:\.\d+)*)", text)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def is_below_floor(flavour: str, version: tuple[int, ...]) -> bool:
    """Whether a server is too old to keep work safe (an unknown flavour is measured as Redis)."""
    return version < FLOOR.get(flavour, FLOOR["redis"])


def check_server(client: redis.Redis) -> ServerFacts:
    """Ask the server what it is. BrokerUnsuitable below the floor; the eviction policy is for the caller to judge."""
    with translate():
        info = _info(client)
    flavour = "valkey" if "valkey_version" in info else "redis"
    version = parse_version(str(info.get(f"{flavour}_version", "")))
    if not version:
        raise BrokerUnsuitable(
            "the broker does not say which version it is",
            help="check that the URL leads to Redis or Valkey, and that its user may run INFO",
        )
    if is_below_floor(flavour, version):
        shown = ".".join(map(str, version))
        raise BrokerUnsuitable(
            f"the broker is {flavour.capitalize()} {shown}; needed is Redis 7.0 or Valkey 7.2, or newer",
            help="upgrade it, or leave the URL out and let serve start an embedded broker",
        )
    mode = str(info.get("server_mode") or info.get("redis_mode") or "standalone")
    _check_mode(client, mode)
    policy = info.get("maxmemory_policy")
    pid = info.get("process_id")
    return ServerFacts(
        flavour=flavour,
        version=version,
        maxmemory_policy=str(policy) if policy else None,
        mode=mode,
        is_replica=info.get("role") == "slave",
        pid=int(pid) if pid is not None else None,
        replicas=_in_step(info),
    )


def _check_mode(client: redis.Redis, mode: str) -> None:
    """A plain client before these would work by halves: redirected for ever, or answered by the wrong server."""
    if mode == "sentinel":
        raise BrokerUnsuitable(
            "the broker URL leads to a Sentinel",
            help="write it as redis+sentinel://HOST:PORT/MASTER, with the name Sentinel knows the master by",
        )
    if mode == "cluster":
        from redis.cluster import RedisCluster

        if not isinstance(client, RedisCluster):
            raise BrokerUnsuitable(
                "the broker URL leads to a node of a Cluster", help="write it as redis+cluster://HOST:PORT"
            )


def _in_step(info: dict[str, Any]) -> int:
    # One line per replica: slave0, slave1, …
    lines = (info.get(f"slave{number}") for number in range(int(info.get("connected_slaves") or 0)))
    return sum("online" in str(line) for line in lines)


def _info(client: redis.Redis) -> dict[str, Any]:
    answer = client.info()
    # Cluster answers per node when it asks several.
    nested = [value for value in answer.values() if isinstance(value, dict) and "redis_version" in value]
    return nested[0] if nested and "redis_version" not in answer else answer


def measure_offset(client: redis.Redis, clock: Clock, *, key: str | None = None) -> float:
    """Seconds to add to `clock.monotonic()` to get the server's epoch time (fleet time).

    The best of a few samples: half the round trip bounds the error. `key` chooses the server in a Cluster,
    where the clock that counts is the one of the node that runs the scripts.
    """
    best: tuple[float, float] | None = None
    for _ in range(_OFFSET_SAMPLES):
        began = clock.monotonic()
        with translate():
            server = _server_time(client, key)
        took = clock.monotonic() - began
        if best is None or took < best[0]:
            best = (took, server - (began + took / 2))
    if best is None:
        raise BrokerUnavailable
    return best[1]


def _server_time(client: redis.Redis, key: str | None) -> float:
    if key is None:
        seconds, micros = client.time()
    else:
        answer = cast("list[str]", client.eval_ro("return redis.call('TIME')", 1, key))
        seconds, micros = int(answer[0]), int(answer[1])
    return seconds + micros / 1_000_000
