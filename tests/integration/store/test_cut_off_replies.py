"""Commands whose patience ends while their replies are on the way: nobody ever gets an answer that was another's."""

from __future__ import annotations

import itertools
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest
from support.broker import Proxy
from support.storedesk import APP, HANDLER, LEASE_MS, T0_MS, Desk

from relayctl.core.lifecycle import Claim
from relayctl.errors import BrokerUnavailable
from relayctl.store.connect import Target, connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.broker import PrivateBroker

pytestmark = pytest.mark.one_server

TIMES = 500
THREADS = 8
PATIENCE_S = 0.1
LATE_S = 0.15
GREETINGS = 3
"""What the server says while a client introduces itself comes at once; of the replies after that every third is late."""


class Slow(Proxy):
    """A way to the broker on which replies take their time."""

    def _pump(self, source: socket.socket, sink: socket.socket, is_reply: bool) -> None:
        pause, numbers = threading.Event(), itertools.count()
        try:
            while data := source.recv(65536):
                if is_reply and (number := next(numbers)) > GREETINGS and number % 3 == 0:
                    pause.wait(LATE_S)
                sink.sendall(data)
        except OSError:
            return


@pytest.fixture
def slow(broker: PrivateBroker) -> Iterator[Slow]:
    def upstream() -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        made.connect(str(broker.target.path))
        return made

    made = Slow(upstream)
    yield made
    made.close()


def test_five_hundred_commands_that_are_cut_off_mix_up_no_reply(desk: Desk, slow: Slow) -> None:
    messages = [desk.enter((APP, HANDLER)) for _ in range(TIMES // 10)]
    for number in range(TIMES):
        desk.client.set(f"{{relay}}:own:{number}", f"value of {number}")
    client: Any = connect(Target.parse(f"redis://127.0.0.1:{slow.port}"), timeout_s=PATIENCE_S)
    far = Desk(client)
    wrong: list[Any] = []
    outcomes = {"answered": 0, "cut off": 0}
    lock = threading.Lock()

    def ask(number: int) -> None:
        if number % 10:
            found = far.stream._client.get(f"{{relay}}:own:{number}")
            is_own = found == f"value of {number}"
        else:
            message = messages[number // 10]
            wanted = far.wanted(message, token=f"t{number}")
            [found] = far.invocations.claim([wanted], lease_ms=LEASE_MS, now_ms=T0_MS)
            is_own = isinstance(found, Claim) and (found.message, found.token) == (message, f"t{number}")
        if not is_own:
            wrong.append((number, found))

    def work(first: int) -> None:
        from relayctl.store.failure import translate

        for number in range(first, TIMES, THREADS):
            try:
                with translate():
                    ask(number)
                outcome = "answered"
            except BrokerUnavailable:
                outcome = "cut off"
            except BaseException as error:
                wrong.append((number, error))
                return
            with lock:
                outcomes[outcome] += 1

    threads = [threading.Thread(target=work, args=(first,)) for first in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.close()
    assert wrong == []
    assert sum(outcomes.values()) == TIMES
    # How many of each is a matter of how busy the machine is.
    assert outcomes["cut off"] > TIMES // 10, outcomes
    assert outcomes["answered"] > 0, outcomes
    # What was cut off may have been done all the same: under its token it is asked for again and is its own.
    for place, message in enumerate(messages):
        assert desk.claimed(message, token=f"t{place * 10}").attempt == 1
