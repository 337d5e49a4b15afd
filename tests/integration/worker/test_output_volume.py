"""Runs that print without end, beside a schedule that is due every second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.broker import await_fact
from support.fleet import each_second_once

if TYPE_CHECKING:
    from support.fleet import Fleet

FLOOD = """
import os, threading


def pour(fd, total):
    block = (b"y" * 999 + b"\\n") * 60
    while total > 0:
        total -= os.write(fd, block)


def flood(event):
    both = [threading.Thread(target=pour, args=(fd, 50_000_000)) for fd in (1, 2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
"""
MOST_LATE_S = 5.0
"""Far below what a loop that waits for a hundred megabytes would need, and far above what a busy machine does."""


def test_floods_delay_no_tick(fleet: Fleet) -> None:
    fleet.tree.app("app", "- {name: tick, handler: jobs.run, every: 1s, timeout: 30s}")
    loud = fleet.tree.root / "loud"
    loud.mkdir()
    (loud / "noise.py").write_text(FLOOD)
    rule = "{handler: noise.flood, retries: 0, timeout: 150s, pattern: {kind: [flood]}}"
    (loud / "template.yaml").write_text(f"runtime: python\nconcurrency: 2\nevents:\n  - {rule}\n")
    worker = fleet.start()
    first = fleet.now() + 1
    for _ in range(2):
        fleet.emit(kind="flood")
    await_fact(lambda: len(worker.told("run-ended", app="loud")) == 2, "the floods end", 150)
    last = fleet.pass_time(1)
    fleet.await_idle()
    assert worker.stop() == 0
    each_second_once(fleet, first, last)
    late = [fact["late_s"] for fact in worker.told("published", app="app")]
    assert len(late) >= last - first and max(late) < MOST_LATE_S
