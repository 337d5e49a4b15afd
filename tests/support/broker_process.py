"""A process with a part in an embedded broker, as a worker has: starts or attaches, watches, reports, waits.

Run by path with the state directory and optionally `no-watch` or `thread` (start from a thread that ends) and a tie.
Prints a JSON line per fact. Ends in an orderly way when its input closes, and prints that.
"""

from __future__ import annotations

import json
import signal
import sys
import threading

from relayctl.broker.supervise import EmbeddedBroker
from relayctl.errors import RelayError
from relayctl.host.clock import SystemClock
from relayctl.host.state import StateDir


def tell(fact: str, **more: object) -> None:
    print(json.dumps({"fact": fact, **more}), flush=True)


def main(directory: str, *flags: str) -> None:
    signal.signal(signal.SIGINT, lambda *_: tell("interrupted"))
    broker = EmbeddedBroker(StateDir(directory), SystemClock(), tie="pipe" if "pipe" in flags else "signal")

    def start() -> None:
        try:
            broker.start_or_attach()
        except RelayError as error:
            tell("refused", kind=type(error).__name__, message=error.message, help=error.help)

    if "thread" in flags:
        thread = threading.Thread(target=start)
        thread.start()
        thread.join()
    else:
        start()
    up = broker.endpoint
    if "no-watch" not in flags:
        broker.watch(lambda event: tell(event.kind, pid=event.endpoint.pid if event.endpoint else None))
    # Told last: a test that breaks something from here on breaks it for a member that watches.
    if up is not None:
        tell("up", url=up.url, owner=up.owner, pid=up.pid)
    sys.stdin.read()
    broker.stop()
    tell("stopped")


if __name__ == "__main__":
    main(*sys.argv[1:])
