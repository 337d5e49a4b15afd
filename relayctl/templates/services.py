"""The services of an app. Whether an entrypoint exists is not asked here but in `handlers`."""

from __future__ import annotations

from datetime import timedelta

from relayctl.core.model import Check, Service
from relayctl.core.names import ServiceName
from relayctl.templates.fields import Fields
from relayctl.templates.naming import check_name

_LAST_PORT = 65535


def service_of(item: Fields) -> Service | None:
    """A service, or None when its name is missing or none."""
    name = item.scalar("name")
    if name is not None:
        check_name(item, name)
    port, replicas = item.integer("port", 0) or None, item.integer("replicas", 1)
    if port is not None and port <= _LAST_PORT < port + replicas - 1:
        item.refuse(
            "port",
            "RLY108",
            f"replica {replicas - 1} would get port {port + replicas - 1}; the last one is {_LAST_PORT}",
            "lower port or replicas",
        )
    check = _check(item.mapping("check"))
    if check is not None and port is None and not item.has("port"):
        item.refuse("check", "RLY102", "a check needs a port to ask", "add  port: …")
    command = item.plain("command")
    if name is None:
        return None
    return Service(
        name=ServiceName(str(name.value)),
        entrypoint=item.text("entrypoint"),
        command=_arguments(item, command),
        port=port,
        replicas=replicas,
        check=check,
        place=item.place("name"),
    )


def _arguments(item: Fields, command: object) -> tuple[str, ...] | None:
    if not isinstance(command, list):
        return None
    words = [word for word in command if isinstance(word, str)]
    if any("\0" in word for word in words):
        item.refuse("command", "RLY104", "an argument holds a NUL character", "remove it")
    if words and not words[0].strip():
        item.refuse("command", "RLY104", "the program of the command is empty", "write the program first")
    return tuple(words)


def _check(written: Fields | None) -> Check | None:
    if written is None:
        return None
    path = written.text("path")
    interval = written.duration("interval", timedelta(seconds=10))
    timeout = written.duration("timeout", timedelta(seconds=2))
    return None if path is None else Check(path=path, interval=interval, timeout=timeout)
