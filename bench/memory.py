"""What a week of firings costs in the broker's memory, and what ten thousand such schedules would. See README.md."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.accountload import Load

from relayctl.broker.supervise import EmbeddedBroker
from relayctl.host.clock import SystemClock
from relayctl.host.state import StateDir
from relayctl.store.connect import connect

DAY = 86_400
FLEET = 10_000


def used_memory(client: Any) -> int:
    return int(client.info("memory")["used_memory"])


def measure(client: Any, seconds: int, days: float, name: str) -> dict[str, Any]:
    """One schedule lives for so many days; its keys, and what they cost per firing that is on record."""
    before = used_memory(client)
    load = Load(client, seconds=seconds, schedule=name)
    load.live(int(days * DAY))
    size, recorded = load.bytes_used(), load.records + load.fields
    assert load.fields <= 128, load.fields
    assert size / recorded <= 200, (size, recorded)
    return {
        "every_s": seconds,
        "firings": int(days * DAY) // seconds,
        "fields": load.fields,
        "records": load.records,
        "bytes": size,
        "bytes_per_recorded_firing": round(size / recorded, 1),
        "used_memory_grew": used_memory(client) - before,
        "extrapolated_mb": round(size * FLEET / 2**20),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=7.0, help="how long the minutely schedule lives")
    parser.add_argument("--fast-days", type=float, default=7.0, help="how long the one with every: 1s lives")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="relay-memory-") as directory:
        broker = EmbeddedBroker(StateDir(Path(directory)), SystemClock())
        broker.start_or_attach()
        client = connect(broker.target)
        try:
            rows = [
                measure(client, 60, asked.days, "minutely"),
                measure(client, 1, asked.fast_days, "every-second"),
            ]
            assert rows[0]["extrapolated_mb"] < 2048
            print(json.dumps(rows, indent=2))
        finally:
            client.close()
            broker.stop()


if __name__ == "__main__":
    main()
