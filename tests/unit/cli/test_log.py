"""The log listener: lines whole under threads, and no exception whatever the stream does."""

from __future__ import annotations

import io
import json
import os
import threading
from datetime import UTC, datetime

from relayctl.cli.log import LogListener
from relayctl.core.facts import BrokerLost, Duplicate, Level, OutputLine
from relayctl.host.clock import HeldClock

CLOCK = HeldClock(datetime(2026, 9, 29, 10, 15, 2, 250_000, tzinfo=UTC))


def test_text_and_json() -> None:
    text, lines = io.StringIO(), io.StringIO()
    fact = BrokerLost(reason="connection refused")
    LogListener(text, "text", CLOCK).emit(fact)
    LogListener(lines, "json", CLOCK).emit(fact)
    assert text.getvalue() == "10:15:02Z error: broker lost: connection refused; running work goes on, retrying\n"
    assert json.loads(lines.getvalue()) == {
        "time": "2026-09-29T10:15:02.250Z",
        "level": "error",
        "event": "broker-lost",
        "reason": "connection refused",
    }


def test_facts_below_the_level_are_left_out() -> None:
    out = io.StringIO()
    fact = Duplicate(app="a", schedule="s", scheduled_at=CLOCK.now(), entry="1-1")
    LogListener(out, "text", CLOCK).emit(fact)
    assert out.getvalue() == ""
    LogListener(out, "text", CLOCK, level=Level.DEBUG).emit(fact)
    assert out.getvalue()


def test_a_reader_that_left_ends_the_log_and_not_the_worker() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        listener = LogListener(stream, "text", CLOCK)
        for _ in range(3):
            listener.emit(BrokerLost(reason="x"))
        # What is still buffered would complain when the file closes.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, writer)
        os.close(null)


def test_a_closed_stream_and_an_ascii_one_are_survived() -> None:
    closed = io.StringIO()
    closed.close()
    LogListener(closed, "text", CLOCK).emit(BrokerLost(reason="x"))
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    LogListener(stream, "text", CLOCK).emit(BrokerLost(reason="caffè"))
    assert b"caff\\xe8" in raw.getvalue()


def test_lines_of_many_threads_stay_whole() -> None:
    out = io.StringIO()
    listener = LogListener(out, "text", CLOCK)
    fact = OutputLine(label="a/h@1", stream="stdout", line="x" * 200)
    threads = [threading.Thread(target=lambda: [listener.emit(fact) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(out.getvalue().splitlines()) == {f"10:15:02Z [a/h@1] {'x' * 200}"}
