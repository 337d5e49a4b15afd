"""What Sentinels answer, in words: a wrong name, a wrong password, a primary that is down, nobody there."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from support.broker import await_fact, free_port
from support.console import relayctl
from support.sentinel import SentinelSet

from relayctl.errors import BrokerError, BrokerRefused, BrokerUnavailable
from relayctl.store.connect import Target, connect, ping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.fleet import Tree

PASSWORD, SENTINEL_PASSWORD = "p@ss/word", "s3ntinel#1"


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SentinelSet]:
    made = SentinelSet(
        tmp_path_factory.mktemp("group"), replicas=0, password=PASSWORD, sentinel_password=SENTINEL_PASSWORD
    )
    yield made
    made.close()


def refusal(url: str) -> BrokerError:
    with pytest.raises(BrokerError) as caught:
        ping(Target.parse(url))
    told = f"{caught.value.message} {caught.value.help}"
    for secret in (PASSWORD, SENTINEL_PASSWORD, "wrong", *(quote(text, safe="") for text in (PASSWORD,))):
        assert secret not in told
    assert "redis.client" not in told
    return caught.value


def test_passwords_of_servers_and_sentinels_are_two(group: SentinelSet) -> None:
    ping(group.target)
    assert PASSWORD not in group.target.display and "***" in group.target.display
    sentinel = refusal(group.url.replace(quote(SENTINEL_PASSWORD, safe=""), "wrong"))
    assert isinstance(sentinel, BrokerRefused)
    assert "no Sentinel takes the login" in sentinel.message
    assert "sentinel_password" in (sentinel.help or "")
    assert isinstance(refusal(group.url.partition("?")[0]), BrokerRefused)
    server = refusal(group.url.replace(quote(PASSWORD, safe=""), "wrong"))
    assert isinstance(server, BrokerRefused)
    assert "Sentinel" not in server.message


def test_a_name_that_no_sentinel_knows(group: SentinelSet) -> None:
    error = refusal(group.url.replace("/main", "/mian"))
    assert isinstance(error, BrokerUnavailable)
    assert 'knows no primary "mian"' in error.message
    assert "name by which Sentinel monitors" in (error.help or "")


def test_a_server_that_is_no_sentinel(group: SentinelSet) -> None:
    url = f"redis+sentinel://127.0.0.1:{group.servers[0].port}/main?sentinel_password={quote(PASSWORD, safe='')}"
    assert f"127.0.0.1:{group.servers[0].port} is no Sentinel" in refusal(url).message


def test_sentinels_that_are_not_there(group: SentinelSet) -> None:
    away = free_port()
    error = refusal(f"redis+sentinel://127.0.0.1:{away}/main")
    assert f"127.0.0.1:{away} does not answer" in error.message
    # One that is away or stands still costs little, and no more than once.
    alive = group.url.replace("redis+sentinel://", "", 1).rpartition("@")[2]
    login = quote(PASSWORD, safe="")
    group.sentinels[0].stall()
    try:
        with connect(Target.parse(f"redis+sentinel://:{login}@127.0.0.1:{away},{alive}")) as client:
            client.ping()
            client.connection_pool.disconnect()
            assert await_fact(client.ping, "the primary is not found") < 0.9
    finally:
        group.sentinels[0].resume()


def test_a_primary_that_is_down_is_told_at_the_start(group: SentinelSet, tree: Tree) -> None:
    [primary] = group.servers
    serve = ("serve", "--once", "--apps", str(tree.root), "--redis", group.url)
    primary.kill()
    try:
        early = relayctl(*serve, cwd=tree.root)
        assert (early.code, "connection refused" in early.err or "no Sentinel" in early.err) == (3, True), early.err
        await_fact(lambda: "holds it for down" in refusal(group.url).message, "the Sentinels do not notice")
        late = relayctl(*serve, cwd=tree.root)
        assert late.code == 3
        assert "no Sentinel names a primary" in late.err and "holds it for down" in late.err
        assert "Traceback" not in late.err
    finally:
        primary.restart()
    await_fact(lambda: is_back(group), "the primary does not come back")


def is_back(group: SentinelSet) -> bool:
    try:
        ping(group.target)
    except BrokerError:
        return False
    return True


@pytest.fixture
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    from support.fleet import Tree

    root = tmp_path_factory.mktemp("tree")
    made = Tree(root / "apps", root / "runs")
    made.nightly("app")
    return made
