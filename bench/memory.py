"""What a week of firings costs in the broker's memory, and what ten thousand such schedules would. See README.md."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.accountload import Load
from support.storedesk import T0_MS, Desk, attempt

from relayctl.broker.supervise import EmbeddedBroker
from relayctl.core.output import MOST_ATTEMPTS, MOST_BYTES, output_of
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


def measure_output(client: Any, handlers: int = 10, attempts: int = 60, size: int = 2048) -> dict[str, Any]:
    """Handlers that print: what is kept of their attempts, what it is counted as, and what it costs the broker."""
    desk = Desk(client, "output")
    keys, text = desk.keys, "x" * size
    for number in range(handlers):
        handler = f"jobs.handler{number}"
        for made in range(attempts):
            claim = desk.claimed(desk.enter(("shop", handler)), slot=handler, token=f"{number}.{made}")
            kept = replace(output_of(claim, worker="w1", started_ms=T0_MS), text=text, outcome="succeeded")
            desk.invocations.end([(claim, replace(attempt(), output=kept))], T0_MS + made)
    owners = [keys.output_of_handler("shop", f"jobs.handler{number}") for number in range(handlers)]
    assert all(client.zcard(owner) == min(attempts, MOST_ATTEMPTS) for owner in owners)
    counted = int(client.hget(keys.output_texts, "bytes"))
    used = sum(client.memory_usage(key, samples=0) for key in (keys.output_texts, keys.output_times, *owners))
    assert used <= counted, (used, counted)
    entries = client.zcard(keys.output_times)
    return {
        "printed_by": handlers,
        "attempts_kept": entries,
        "counted_bytes": counted,
        "used_bytes": used,
        "used_bytes_beside_text": round(used / entries - size, 1),
        "counted_at_most_mb": MOST_BYTES // 2**20,
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
            rows.append(measure_output(client))
            print(json.dumps(rows, indent=2))
        finally:
            client.close()
            broker.stop()


if __name__ == "__main__":
    main()
