"""Broker URLs, the clients made from them, and what their failures become."""

from __future__ import annotations

import socket
import time
from datetime import timedelta

import pytest
import redis
from redis import exceptions as library
from support.broker import Proxy

from relayctl.errors import BrokerRefused, BrokerUnavailable, BrokerUnsuitable, UsageError
from relayctl.host.clock import SystemClock
from relayctl.store.connect import (
    Kind,
    Target,
    check_server,
    connect,
    is_retryable,
    measure_offset,
    ping,
    probe,
    to_broker_error,
    translate,
)

pytestmark = pytest.mark.one_server

CA = "ca=%2Fetc%2Fca.pem"
LAYOUT = "10.0.0.1:26379,[::1]:5"


@pytest.mark.parametrize(
    ("url", "expected", "display"),
    [
        ("redis://h", {"kind": Kind.TCP, "hosts": (("h", 6379),), "tls": False}, "redis://h:6379"),
        ("REDIS://h:7/3", {"hosts": (("h", 7),), "db": 3}, "redis://h:7/3"),
        ("redis://h?db=2", {"db": 2}, "redis://h:6379/2"),
        ("redis://:s%2F%40c@h", {"username": None, "password": "s/@c"}, "redis://:***@h:6379"),
        ("redis://u:s3cret@[::1]:8/0", {"username": "u", "hosts": (("::1", 8),)}, "redis://u:***@[::1]:8"),
        (f"rediss://u:p@h/1?{CA}&verify=no", {"tls": True, "ca": "/etc/ca.pem", "verify": False}, "rediss://u:***@h:6379/1"),
        ("unix:///run/a%20b.sock?db=4", {"kind": Kind.UNIX, "path": "/run/a b.sock", "db": 4, "hosts": ()}, "unix:///run/a%20b.sock?db=4"),
        ("unix:///s?username=u&password=s3cret", {"username": "u", "password": "s3cret"}, "unix:///s"),
        (
            f"redis+sentinel://:s3cret@{LAYOUT}/main/2?sentinel_password=s3cret",
            {"hosts": (("10.0.0.1", 26379), ("::1", 5)), "service": "main", "db": 2, "sentinel_password": "s3cret"},
            f"redis+sentinel://:***@{LAYOUT}/main/2",
        ),
        ("redis+cluster://a,b:7?tls=yes", {"hosts": (("a", 6379), ("b", 7)), "tls": True}, "redis+cluster://a:6379,b:7"),
    ],
)  # fmt: skip
def test_urls_are_read_and_shown_without_their_password(url, expected, display):
    target = Target.parse(url)
    assert {name: getattr(target, name) for name in expected} == expected
    assert target.display == display
    assert "s3cret" not in repr(target)


@pytest.mark.parametrize(
    ("url", "says", "way_out"),
    [
        ("", "no scheme", "redis://HOST"),
        ("localhost:6379", "no scheme", "redis://HOST"),
        ("user:s3cret@host", "no scheme", "redis://HOST"),
        ("valkey://:s3cret@h", "valkey://", "write redis://"),
        ("valkeys://h", "valkeys://", "write rediss://"),
        ("rediss+cluster://h", "rediss+cluster://", "tls=yes"),
        ("http://:s3cret@h", "http://", "redis://HOST"),
        ("redis://", "host and port", "redis://HOST"),
        ("redis://h:0", "between 1 and 65535", "redis://HOST"),
        ("redis://h:99999", "between 1 and 65535", "redis://HOST"),
        ("redis://u:s3cret/x@h", "not a number", "percent-encoded"),
        ("redis://u:s3cret/1", "host and port", "percent-encoded"),
        ("redis://u:s3cret#x@h", "#", "percent-encoded"),
        ("redis://u:p?s3cret@h", "unknown option", "percent-encode a ?"),
        ("redis://[::1", "cannot be read", "redis://HOST"),
        ("redis://h/s3cret", "not a number", "redis://HOST"),
        ("redis://h/1/s3cret", "too many parts", "redis://HOST"),
        ("redis://h?databse=1", "unknown option databse", "takes db"),
        ("redis://a,b", "several hosts", "redis+sentinel://"),
        ("unix://run/sock", "no absolute socket path", "three slashes"),
        ("unix:///", "no absolute socket path", "three slashes"),
        ("redis+sentinel://h", "which master", "/MASTER"),
        ("redis+cluster://h/1", "only 0", "leave the number out"),
        ("redis+cluster://h?tls=maybe", "neither yes nor no", "redis://HOST"),
    ],
)
def test_other_urls_are_refused_with_a_way_out_and_no_secret(url, says, way_out):
    with pytest.raises(UsageError) as caught:
        Target.parse(url)
    assert says in caught.value.message
    assert way_out in caught.value.help
    assert "s3cret" not in caught.value.message + caught.value.help


def options_of(client) -> dict:
    return client.connection_pool.connection_kwargs


def test_every_role_has_a_bounded_wait_and_no_retry():
    target = Target.parse("redis://h")
    waits = {role: options_of(connect(target, role=role))["socket_timeout"] for role in ("command", "reader", "pubsub")}
    assert waits["command"] == waits["pubsub"] == 5
    assert options_of(connect(target, role="reader", block_s=20))["socket_timeout"] > 20
    for role in waits:
        client = connect(target, role=role)
        assert client.get_retry().get_retries() == 0
        assert options_of(client)["decode_responses"] is True
        assert options_of(client)["legacy_responses"] is False


def test_tls_and_its_files_reach_the_connection():
    client = connect(Target.parse("rediss://h?ca=/ca&cert=/cert&key=/key&verify=no"))
    made = options_of(client)
    assert issubclass(client.connection_pool.connection_class, redis.SSLConnection)
    assert (made["ssl_ca_certs"], made["ssl_certfile"], made["ssl_keyfile"]) == ("/ca", "/cert", "/key")
    assert made["ssl_cert_reqs"] == "none"
    assert options_of(connect(Target.parse("rediss://h")))["ssl_cert_reqs"] == "required"


def test_a_blocking_reader_returns_empty_in_time(broker, redis_client):
    with connect(broker.target, role="reader", block_s=0.2) as reader:
        began = time.monotonic()
        assert reader.xread({"log": "$"}, block=200) == {}
        assert time.monotonic() - began < 2
        entry = redis_client.xadd("log", {"a": "1"})
        assert reader.xread({"log": "0"}, block=200) == {"log": [(entry, {"a": "1"})]}


def test_a_lost_reply_is_an_error_and_the_command_is_not_sent_again(broker, redis_client):
    def upstream() -> socket.socket:
        server = socket.socket(socket.AF_UNIX)
        server.connect(broker.target.path)
        return server

    proxy = Proxy(upstream)
    client = connect(Target.parse(f"redis://127.0.0.1:{proxy.port}"), timeout_s=0.3)
    try:
        client.ping()
        proxy.eat.set()
        with pytest.raises(BrokerUnavailable, match="did not answer in time") as caught, translate():
            client.xadd("log", {"a": "1"})
        assert caught.value.is_retryable
    finally:
        client.close()
        proxy.close()
    assert redis_client.xlen("log") == 1


def test_a_broker_that_accepts_and_never_answers_is_given_up_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = Target.parse(f"redis://127.0.0.1:{silent.getsockname()[1]}")
        began = time.monotonic()
        assert probe(target, timeout_s=0.2) == "absent"
        assert time.monotonic() - began < 2


def test_an_unreachable_broker_is_named_without_its_password():
    with pytest.raises(BrokerUnavailable) as caught:
        ping(Target.parse("redis://app:hunter2@127.0.0.1:1"))
    assert "redis://app:***@127.0.0.1:1 cannot be reached" in caught.value.message
    assert caught.value.help
    assert "hunter2" not in caught.value.message + str(caught.value.__cause__)


def test_errors_of_the_library_do_not_leave_the_door(redis_client):
    redis_client.set("text", "1")
    with pytest.raises(BrokerRefused, match="WRONGTYPE") as caught, translate("redis://h"):
        redis_client.xlen("text")
    assert caught.value.message.startswith("redis://h ")
    with pytest.raises(KeyError), translate():
        raise KeyError("not the library's")


def test_a_forbidden_command_is_permanent_and_says_so(broker, redis_client):
    redis_client.execute_command("ACL", "SETUSER", "small", "on", ">pw", "~{relay}:*", "+@all", "-@dangerous", "+info")
    try:
        with connect(Target.parse(f"unix://{broker.target.path}?username=small&password=pw")) as client:
            assert check_server(client).flavour == "valkey"
            assert measure_offset(client, SystemClock(), key="{relay}:epoch") > 0
            with pytest.raises(BrokerRefused, match="forbids"), translate():
                client.flushall()
    finally:
        redis_client.execute_command("ACL", "DELUSER", "small")


CODES = {
    "MISCONF Errors writing to the AOF file": True,
    "NOREPLICAS Not enough good replicas to write.": True,
    "BUSY Valkey is busy running a script.": True,
    "UNBLOCKED the stream key no longer exists": True,
    "LOADING x": True,
    "OOM command not allowed when used memory > 'maxmemory'.": True,
    "READONLY You can't write against a read only replica.": True,
    "CLUSTERDOWN The cluster is down": True,
    "MASTERDOWN Link with MASTER is down": True,
    "TRYAGAIN Multiple keys request during rehashing of slot": True,
    "EXECABORT Transaction discarded because of: OOM command not allowed": True,
    "ERR max number of clients reached": True,
    "EXECABORT Transaction discarded because of previous errors.": False,
    "WRONGTYPE Operation against a key": False,
    "ERR unknown command 'X'": False,
    "NOPERM this user has no permissions": False,
    "WRONGPASS invalid username-password pair": False,
    "NOAUTH Authentication required.": False,
    "CROSSSLOT Keys in request don't hash to the same slot": False,
    "NOGROUP No such key": False,
}


@pytest.mark.parametrize(("answer", "expected"), CODES.items())
def test_answers_are_told_apart_as_the_library_parses_them(answer, expected):
    from redis._parsers.base import BaseParser

    error = BaseParser.parse_error(answer)
    assert is_retryable(error) is expected
    ours = to_broker_error(error)
    assert type(ours) is (BrokerUnavailable if expected else BrokerRefused)
    assert ours.help or not expected


def test_losing_the_connection_or_the_master_is_retryable_and_our_own_mistakes_are_not():
    from redis.sentinel import MasterNotFoundError

    for error in (library.ConnectionError(), library.TimeoutError(), MasterNotFoundError(), BrokerUnavailable()):
        assert is_retryable(error)
    for error in (library.DataError(), BrokerRefused(), ValueError()):
        assert not is_retryable(error)


class Claims:
    """A client whose server describes itself as given: old servers cannot be had here."""

    def __init__(self, **info: object) -> None:
        self._info = info

    def info(self) -> dict:
        return self._info


@pytest.mark.parametrize(
    ("info", "accepted"),
    [
        ({"redis_version": "7.0.0"}, ("redis", (7, 0, 0))),
        ({"redis_version": "10.1.2"}, ("redis", (10, 1, 2))),
        ({"redis_version": "7.2.4", "valkey_version": "7.2.5"}, ("valkey", (7, 2, 5))),
        ({"node": {"redis_version": "7.4.0"}}, ("redis", (7, 4, 0))),
        ({"redis_version": "6.2.14"}, None),
        ({"redis_version": "7.2.4", "valkey_version": "7.1.0"}, None),
        ({}, None),
    ],
)
def test_the_floor(info, accepted):
    if accepted is None:
        with pytest.raises(BrokerUnsuitable) as caught:
            check_server(Claims(**info))
        assert caught.value.help
    else:
        facts = check_server(Claims(**info))
        assert (facts.flavour, facts.version) == accepted


def test_eviction_is_a_fact_to_warn_about(redis_client):
    assert not check_server(redis_client).is_evicting
    redis_client.config_set("maxmemory-policy", "volatile-lru")
    try:
        facts = check_server(redis_client)
        assert (facts.maxmemory_policy, facts.is_evicting) == ("volatile-lru", True)
    finally:
        redis_client.config_set("maxmemory-policy", "noeviction")


def test_the_offset_leads_from_the_local_clock_to_the_servers(redis_client):
    clock = SystemClock()
    for key in (None, "{relay}:epoch"):
        fleet = clock.monotonic() + measure_offset(redis_client, clock, key=key)
        assert abs(fleet - clock.time()) < timedelta(milliseconds=200).total_seconds()
