"""What handlers print reaches people bounded, harmless and masked."""

from __future__ import annotations

import time
from collections.abc import Callable

from runner_stage import Stage, zoo_build

from relayctl.runners.invocation import Outcome
from relayctl.runners.output import MAX_SHOWN_BYTES, TAIL_SIZE


def test_bytes_that_are_no_text(stage: Stage) -> None:
    ended = stage.one("animals.binary")
    assert ended.outcome is Outcome.SUCCEEDED
    assert stage.texts() == ["\ufffd\ufffd\\x00 red \\x1b]0;title\\x07 🐍 "]
    assert ended.output_tail.startswith(b"\xff\xfe\x00 \x1b[31mred")


def test_giant_line_is_cut_and_what_follows_is_there(stage: Stage) -> None:
    ended = stage.one("animals.giant_line")
    assert (ended.outcome, ended.exit_code, ended.output_bytes) == (Outcome.FAILED, 3, 10_000_036)
    giant, *rest = stage.texts()
    assert giant.endswith("… [9991808 more bytes of this line are not shown]") and len(giant) < 9000
    assert rest == [f"line {n}" for n in range(5)]
    assert ended.unshown_bytes == 9_991_808
    assert ended.output_tail.endswith(b"line 4\n") and len(ended.output_tail) == TAIL_SIZE


def test_fifty_megabytes_on_both_streams_never_hold_the_loop(stage: Stage) -> None:
    stage.ready()
    run = stage.run("animals.flood", timeout_s=50)
    stage.pool.start(run)
    slowest, spent = 0.0, 0
    while not (ended := stage.pool.take_ended()):
        events = stage.selector.select(1.0)
        began = time.thread_time()
        for key, mask in events:
            key.data(mask)
        stage.pool.tick(stage.pool.monotonic())
        slowest = max(slowest, time.thread_time() - began)
        spent += 1
    assert (ended[0].outcome, ended[0].output_bytes) == (Outcome.SUCCEEDED, 100_000_008)
    assert ended[0].output_tail.endswith(b"the end\n")
    assert sum(map(len, stage.texts())) < MAX_SHOWN_BYTES + 10_000
    assert stage.texts()[-1] == "[this run printed more than is shown; only its end is kept]"
    assert spent > 100
    assert slowest < 0.1  # processor seconds of one round


def test_lines_are_bounded_in_number(stage: Stage) -> None:
    stage.one("animals.blank_lines")
    assert len(stage.texts()) == 10_001


def test_secrets_are_masked_in_lines_tail_and_reason(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build(secrets=(("TOKEN", "api-token"),)))
    stage.values["api-token"] = "s3cr3t-value"
    ended = stage.one("animals.tell_secret")
    assert ended.reason == "RuntimeError: refused ***"
    assert stage.texts("stdout") == ["it is ***", "***"]
    assert b"s3cr3t" not in ended.output_tail and b"-value" not in ended.output_tail
    assert not any("s3cr3t" in text for text in stage.texts())


def test_secrets_are_looked_up_for_every_run(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(zoo_build(secrets=(("TOKEN", "api-token"),)))
    missing = stage.one("animals.noop")
    assert (missing.outcome, missing.started) == (Outcome.FAILED, False)
    assert missing.reason == "secret api-token has no value here"
    stage.values["api-token"] = "one"
    assert stage.one("animals.noop").outcome is Outcome.SUCCEEDED
    stage.values["api-token"] = "with\0nul"
    assert "NUL" in stage.one("animals.noop").reason
