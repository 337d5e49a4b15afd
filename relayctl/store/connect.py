"""The one factory of clients: how long each role waits, and that nothing is ever sent twice behind our back.

The library retries non-idempotent commands ten times by default and answers in an older shape; both are off here.
Target, translate, check_server and their like are offered from here too, so that callers know one door.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, cast

import redis
from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from relayctl.errors import BrokerUnavailable, UsageError
from relayctl.store.failure import is_retryable, to_broker_error, translate
from relayctl.store.heldtime import HeldRedis, Instant
from relayctl.store.server import ServerFacts, check_server, measure_offset
from relayctl.store.target import Kind, Target

__all__ = [
    "Kind",
    "Readiness",
    "Role",
    "ServerFacts",
    "Target",
    "check_server",
    "connect",
    "is_retryable",
    "measure_offset",
    "ping",
    "probe",
    "to_broker_error",
    "translate",
]

Role = Literal["command", "reader", "pubsub"]
Readiness = Literal["ready", "loading", "absent"]

CONNECT_TIMEOUT_S = 3.0
COMMAND_TIMEOUT_S = 5.0
# What a blocking read asks for at most (BLOCK), and how much longer its socket waits.
READER_BLOCK_S = 5.0
READER_MARGIN_S = 5.0
# A connection idle for longer is asked for a sign of life before a command is risked on it.
HEALTH_CHECK_S = 15


class _LeavesReplicas:
    """Drops the connection to a server that was demoted, so that the name is looked up anew.

    Behind a name or an address that moves, a client would otherwise write to the old master for ever.
    """

    def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return super().read_response(*args, **options)  # type: ignore[misc]  # of the class it is mixed into
        except redis.ReadOnlyError as error:
            self.disconnect()  # type: ignore[attr-defined]  # likewise
            raise redis.ConnectionError(f"the server became a read-only replica ({error})") from error


class _TcpConnection(_LeavesReplicas, redis.Connection):
    pass


class _TlsConnection(_LeavesReplicas, redis.SSLConnection):
    pass


def connect(
    target: Target,
    *,
    role: Role = "command",
    block_s: float = READER_BLOCK_S,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
    timeout_s: float = COMMAND_TIMEOUT_S,
    client_name: str | None = None,
    instant: Instant | None = None,
) -> redis.Redis:
    """A client for `target` that connects on first use. `close` it when done.

    A `reader` may block for `block_s` on the server; never block longer or for ever on any client. A Cluster
    client is returned under the same type: it answers the same commands, but its pipelines run no scripts. With
    `instant` the broker's time is held by the caller, on one server alone.
    """
    options = _socket_options(role, block_s, connect_timeout_s, timeout_s) | _login(target)
    if client_name is not None:
        options["client_name"] = client_name
    if instant is not None and target.kind in {Kind.CLUSTER, Kind.SENTINEL}:
        raise ValueError("time is held on one server, not on a group of them")
    if target.kind is Kind.CLUSTER:
        return _cluster(target, options)
    options["retry"] = Retry(NoBackoff(), 0)
    options["db"] = target.db
    if target.kind is Kind.SENTINEL:
        return _sentinel(target, options)
    make: Callable[..., redis.Redis] = redis.Redis if instant is None else partial(HeldRedis, instant=instant)
    if target.kind is Kind.UNIX:
        return make(unix_socket_path=target.path, **options)
    [(host, port)] = target.hosts
    client = make(host=host, port=port, **options, **_tls(target))
    # Connections are made on first use, so the class can still be chosen.
    client.connection_pool.connection_class = _TlsConnection if target.tls else _TcpConnection
    return client


def ping(target: Target, *, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
    """Return if the server answers now; BrokerUnavailable or BrokerRefused if not."""
    with translate(target.display):
        client = connect(target, connect_timeout_s=timeout_s, timeout_s=timeout_s)
        try:
            client.ping()
        finally:
            client.close()


def probe(target: Target, *, timeout_s: float = CONNECT_TIMEOUT_S) -> Readiness:
    """What a starting server is at now: a reload refuses connections first, then answers that it is loading."""
    try:
        ping(target, timeout_s=timeout_s)
    except BrokerUnavailable as error:
        return "loading" if isinstance(error.__cause__, redis.BusyLoadingError) else "absent"
    return "ready"


def _socket_options(role: Role, block_s: float, connect_timeout_s: float, timeout_s: float) -> dict[str, Any]:
    if role == "reader":
        timeout_s = block_s + READER_MARGIN_S
    return {
        "decode_responses": True,
        # An entry may hold any bytes: they become lone surrogates instead of an error in the middle of a reply.
        "encoding_errors": "surrogateescape",
        "legacy_responses": False,
        "socket_connect_timeout": connect_timeout_s,
        "socket_timeout": timeout_s,
        "socket_keepalive": True,
        "health_check_interval": HEALTH_CHECK_S,
        # A vendor's maintenance handshake: one refused round trip per connection on every other server.
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }


def _login(target: Target) -> dict[str, Any]:
    return {"username": target.username, "password": target.password}


def _tls(target: Target) -> dict[str, Any]:
    if not target.tls:
        return {}
    return {
        "ssl": True,
        "ssl_cert_reqs": "required" if target.verify else "none",
        "ssl_check_hostname": target.verify,
        "ssl_ca_certs": target.ca,
        "ssl_certfile": target.cert,
        "ssl_keyfile": target.key,
    }


def _sentinel(target: Target, options: dict[str, Any]) -> redis.Redis:
    from relayctl.store.sentinel import LOOKUP_TIMEOUT_S, Sentinels

    within_s = min(options["socket_connect_timeout"], LOOKUP_TIMEOUT_S)
    asking = {
        "retry": options["retry"],
        "maint_notifications_config": options["maint_notifications_config"],
        "socket_connect_timeout": within_s,
        "socket_timeout": within_s,
        "decode_responses": True,
        "username": target.sentinel_username,
        "password": target.sentinel_password,
    }
    # The library has no annotations here.
    sentinels = Sentinels(  # type: ignore[no-untyped-call]
        list(target.hosts), sentinel_kwargs=asking | _tls(target), **options, **_tls(target)
    )
    return cast("redis.Redis", sentinels.master_for(target.service))  # type: ignore[no-untyped-call]


def _cluster(target: Target, options: dict[str, Any]) -> redis.Redis:
    from redis.cluster import ClusterNode, RedisCluster

    if not target.hosts:
        raise UsageError("the broker URL names no cluster node")
    nodes = [ClusterNode(host, port) for host, port in target.hosts]  # type: ignore[no-untyped-call]
    # A cluster client asks its nodes for the layout at once, so it can fail here already.
    with translate(target.display):
        client = RedisCluster(startup_nodes=nodes, retry=Retry(NoBackoff(), 0), **options, **_tls(target))
    return cast("redis.Redis", client)
