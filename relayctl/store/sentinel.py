"""Asks Sentinels for the primary, and says in plain words why none of them could name one.

Waits briefly for each: a Sentinel that stands still must not keep a worker from the one that answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis import exceptions as library
from redis.sentinel import Sentinel

from relayctl.store.failure import NoPrimary, SentinelRefused

if TYPE_CHECKING:
    from redis import Redis

LOOKUP_TIMEOUT_S = 1.0


class Sentinels(Sentinel):
    """The library's pools ask it on every new connection. The Sentinel that answered last is asked first."""

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """Host and port of the primary. Raises NoPrimary, or SentinelRefused where only the login is wrong."""
        notes: list[str] = []
        refused = 0
        unknown = f'knows no primary "{service_name}"'
        asked = list(self.sentinels)
        for sentinel in asked:
            try:
                state = _state(sentinel, service_name)
            except (library.AuthenticationError, library.NoPermissionError):
                refused += 1
                notes.append("refuses the login")
            except library.ResponseError:
                notes.append("is no Sentinel")
            except (library.RedisError, OSError):
                notes.append("does not answer")
            else:
                if state is None:
                    notes.append(unknown)
                elif not self.check_master_state(state, service_name):  # type: ignore[no-untyped-call]
                    notes.append("holds it for down")
                else:
                    # Made anew, because connections of other threads look through it at this moment.
                    self.sentinels = [sentinel, *(one for one in self.sentinels if one is not sentinel)]
                    return str(state["ip"]), int(state["port"])
        answers = ", ".join(f"{_address(one)} {note}" for one, note in zip(asked, notes, strict=True))
        if refused == len(notes):
            raise SentinelRefused(answers)
        if unknown in notes and "holds it for down" not in notes:
            raise NoPrimary(answers, way_out="write after the hosts the name by which Sentinel monitors the primary")
        raise NoPrimary(answers)


def _state(sentinel: Redis, service: str) -> dict[str, Any] | None:
    # All of them, because asking for one by name answers an unknown name with an error among many.
    masters: Any = sentinel.sentinel_masters()
    found: dict[str, Any] | None = masters.get(service)
    return found


def _address(sentinel: Redis) -> str:
    place = sentinel.connection_pool.connection_kwargs
    host = str(place["host"])
    return f"[{host}]:{place['port']}" if ":" in host else f"{host}:{place['port']}"
