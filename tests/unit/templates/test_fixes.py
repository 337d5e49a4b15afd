"""Fixes beyond the everyday: odd places, keys that move, what is taken back, comments that silence, and writing."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest
from support.templates import HABITS, NOW, SERVICE, write_app

from relayctl.core.problem import Edit, Fix, Place, Problem, Severity
from relayctl.errors import FileFailure
from relayctl.templates.fixes.app import bench_of
from relayctl.templates.fixes.difference import difference
from relayctl.templates.fixes.edits import applied
from relayctl.templates.fixes.rounds import Judged, Mended, mended
from relayctl.templates.fixes.writing import overwrite
from relayctl.templates.rules.engine import USUAL
from relayctl.templates.rules.registry import BY_CODE, FixKind

_HEAD = f"runtime: python\n{SERVICE}"
_USUAL = BY_CODE.keys() - HABITS


def _mend(text: str, *codes: str) -> Mended:
    bench = bench_of(None, "apps/sample/template.yaml", NOW, USUAL)
    return bench.mend(text.encode(), lambda problem: problem.code in (codes or _USUAL))


def _fixed(text: str, *codes: str) -> str:
    return _mend(text, *codes).data.decode()


def _schedule(*lines: str) -> str:
    return f"{_HEAD}schedules:\n  - name: a\n    handler: jobs.run\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        ("%YAML 1.1\n---\n" + _HEAD, "---\n" + _HEAD),
        ("# top\n%TAG ! x\n--- # go\n" + _HEAD, "# top\n--- # go\n" + _HEAD),
        (_schedule("cron: *"), _schedule('cron: "*"')),
        (_schedule('cron: */5 * * * "x"'), _schedule("cron: '*/5 * * * \"x\"'")),
        (_HEAD + "env: {A: @x, B: z}\n", _HEAD + 'env: {A: "@x", B: z}\n'),
        (_HEAD + "env:\n\tA: x\n\tB: z\n", _HEAD + "env:\n  A: x\n  B: z\n"),
        (_HEAD + "env:\n    A: x\n\tB: z\n", _HEAD + "env:\n    A: x\n    B: z\n"),
        (_HEAD + "env: {A: on, B: 010, C: 0x1f}\n", _HEAD + 'env: {A: "on", B: "010", C: "0x1f"}\n'),
        (_HEAD + "concurrency: '2'\n", _HEAD + "concurrency: 2\n"),
        (_schedule('"retires": 2', "every: 1h"), _schedule('"retries": 2', "every: 1h")),
        (_schedule("every: 1h").replace(": a\n", ': "a\\nb"\n'), _schedule("every: 1h").replace(": a\n", ': "a-b"\n')),
        (_schedule("{cron: x}"), _schedule("{cron: x}")),
        (_schedule("cron: 0 22-2 * * *"), _schedule('cron: "0 22-23,0-2 * * *"')),
        (_schedule("cron: 0 3 * * FRI-MON"), _schedule('cron: "0 3 * * FRI-SAT,SUN-MON"')),
        (_schedule("cron: '*/90 * * * *'", "timezone: UTC"), _schedule("cron: '*/90 * * * *'", "timezone: UTC")),
        (_schedule('cron: "0 3 1-7 * MON"'), _schedule('cron: "0 3 1-7 * MON"')),
        (_schedule('cron: "0 3 */5 * *"'), _schedule('cron: "0 3 */5 * *"')),
        (_schedule('cron: "0 3 * * \\x30-0"'), _schedule('cron: "0 3 * * \\x30-0"')),
    ],
)  # fmt: skip
def test_a_fix_keeps_the_spelling_around_it(bad: str, good: str) -> None:
    assert _fixed(bad) == good
    assert _fixed(bad.replace("\n", "\r\n")) == good.replace("\n", "\r\n")
    assert _fixed(good) == good


def test_a_flow_schedule_gets_its_zone_inside_its_braces() -> None:
    bad = f'{_HEAD}schedules: [{{name: a, cron: "TZ=Asia/Tokyo 0 3 * * *", handler: jobs.run}}]\n'
    assert 'cron: "0 3 * * *", timezone: Asia/Tokyo, handler' in _fixed(bad)


def test_of_two_zones_that_contradict_each_other_one_is_a_guess() -> None:
    text = _schedule('cron: "TZ=Asia/Tokyo 0 3 * * *"', "timezone: Europe/Rome")
    done = _mend(text)
    assert done.data.decode() == _schedule('cron: "0 3 * * *"', "timezone: Asia/Tokyo")
    assert [problem.fix is not None and problem.fix.is_safe for problem in done.fixed] == [False]


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        (  # from a schedule to the top, with its comment and its lines
            _schedule("every: 1h", "env:   # kept", "  A: x", "", "  B:  z") + "    retries: 1\n",
            "runtime: python\nenv:   # kept\n  A: x\n\n  B:  z\n" + SERVICE
            + "schedules:\n  - name: a\n    handler: jobs.run\n    every: 1h\n    retries: 1\n",
        ),
        (  # from the top into the only schedule
            f"{_HEAD}timezone: Asia/Tokyo  # there\nschedules:\n  - name: a\n    cron: '0 3 * * *'\n    handler: jobs.run",
            f"{_HEAD}schedules:\n  - name: a\n    timezone: Asia/Tokyo  # there\n    cron: '0 3 * * *'\n    handler: jobs.run",
        ),
        (  # into a flow mapping
            f"{_HEAD}timezone: Asia/Tokyo\nschedules: [{{name: a, cron: 0 3 * * *, handler: jobs.run}}]\n",
            f"{_HEAD}schedules: [{{name: a, cron: 0 3 * * *, handler: jobs.run, timezone: Asia/Tokyo}}]\n",
        ),
        (  # the last line, which nothing ends
            _schedule("every: 1h", "concurrency: 2").rstrip("\n"),
            f"runtime: python\nconcurrency: 2\n{SERVICE}schedules:\n  - name: a\n    handler: jobs.run\n    every: 1h",
        ),
        (_HEAD + "memory: 64MiB\nconcurrency: 2", _HEAD + "resources:\n  memory: 64MiB\nconcurrency: 2"),
        (_HEAD + "memory: 64MiB\nresources:\n  cpus: 1", _HEAD + "resources:\n  cpus: 1\n  memory: 64MiB"),
    ],
)  # fmt: skip
def test_a_key_moves_to_where_it_belongs(bad: str, good: str) -> None:
    assert [problem.code for problem in _mend(bad).fixed] == ["RLY106"]
    assert _fixed(bad) == good


@pytest.mark.parametrize(
    "text",
    [
        # Two schedules: nobody can say which. A taken key, a key beside an anchor, the first key of an item.
        f"{_HEAD}timeout: 5s\nschedules:\n  - {{name: a, every: 1h, handler: j.r}}\n  - {{name: b, every: 1h, handler: j.r}}\n",
        _schedule("every: 1h", "runtime: node"),
        _schedule("every: &a 1h", "env: {A: x}"),
        f"{_HEAD}schedules:\n  - env: {{A: x}}\n    name: a\n    handler: jobs.run\n    every: 1h\n",
    ],
)
def test_a_key_that_has_no_one_place_stays(text: str) -> None:
    assert _fixed(text, "RLY106") == text


def _problem(line: int, text: str, message: str = "", *, severity: Severity = Severity.WARNING) -> Problem:
    edit = Edit(line=line, column=1, end_line=line, end_column=2, text=text)
    fix = Fix(description="", edits=(edit,), is_safe=True)
    place = Place(file="t", line=line)
    return Problem(code="RLY208", severity=severity, place=place, message=message or str(line), fix=fix)


def test_of_two_fixes_that_touch_one_waits() -> None:
    data, taken = applied(b"ab\ncd\n", [_problem(1, "x"), _problem(1, "y"), _problem(2, "z")])
    assert (data, len(taken)) == (b"xb\nzd\n", 2)


def test_very_many_fixes_cost_no_more_than_their_number() -> None:
    many = 12_000
    began = time.perf_counter()
    data, taken = applied(b"ab\n" * many, [_problem(line + 1, "x") for line in range(many)])
    assert len(taken) == many and data.count(b"x") == many
    # It takes 0.1 s on a machine of its own; each held against all others it took ten.
    assert time.perf_counter() - began < 6


def _judge(data: bytes) -> Judged:
    """Lower-case first letters are findings; an `E` at the front of a line is an error, `!` cannot be read."""
    lines = data.decode().splitlines()
    if any(line.startswith("!") for line in lines):
        return Judged(problems=[_problem(1, "x", "no", severity=Severity.ERROR)], is_readable=False)
    becomes = {"a": "A", "b": "E", "c": "!", "d": "d"}
    found = [_problem(at, becomes[line[0]]) for at, line in enumerate(lines, 1) if line[0] in becomes]
    errors = [_problem(at, "E", "worse", severity=Severity.ERROR) for at, line in enumerate(lines, 1) if line[0] == "E"]
    return Judged(problems=[*found, *errors], is_readable=True)


def test_what_makes_it_worse_is_taken_back_and_said() -> None:
    done = mended(b"a1\nb2\nc3\nd4\na5\n", _judge, lambda problem: problem.severity is Severity.WARNING)
    assert done.data == b"A1\nb2\nc3\nd4\nA5\n"
    assert [problem.place.line for problem in done.fixed] == [1, 5]
    reasons = {refusal.problem.place.line: refusal.reason for refusal in done.refused}
    assert reasons[2].startswith("it would bring an error: RLY208 worse")
    assert reasons[3] == "the file could not be read any more (RLY208)"
    assert reasons[4] == "it would not cure it"


def test_the_table_of_rules_tells_which_have_a_fix() -> None:
    texts = [
        _schedule(f'cron: "{cron}"') for cron in ("61 * * * *", "0 0 3 * * *", "@every 6h", "0 0 ? * *", "0 0 L * *")
    ]
    bench = bench_of(None, "t", NOW, USUAL)
    for text in texts:
        for problem in bench.judge(text.encode()).problems:
            assert problem.fix is None or BY_CODE[problem.code].fix is not FixKind.NONE


def test_comments_that_silence() -> None:
    text = _schedule(
        "cron: '0 9 1 * 1'  # both",
        "timeout: 5m",
        "description: >-",
        "  much",
    ) + (
        "  - {name: b, handler: jobs.run, cron: '*/7 9 1 * 2'}\n"
        "  - name: c\n    handler: jobs.run\n    # relay: ignore[RLY208] known\n    cron: '*/7 9 1 * 2'\n"
    )  # fmt: skip
    bench = bench_of(None, "t", NOW, USUAL)
    done = bench.silence(text.encode(), lambda problem: problem.severity is not Severity.INFO)
    shown = done.data.decode()
    assert "    # relay: ignore[RLY207]\n    cron: '0 9 1 * 1'  # both\n" in shown
    assert "'*/7 9 1 * 2'}  # relay: ignore[RLY207, RLY208]\n" in shown
    assert "# relay: ignore[RLY207, RLY208] known\n" in shown
    left = [problem for problem in bench.judge(done.data).problems if problem.severity is not Severity.INFO]
    assert left == []


def test_an_error_without_whose_cure_there_is_no_app_is_not_silenced() -> None:
    text = _schedule("cron: '0 3 * * *'", "timezone: Europe/Nowhere  # relay: ignore[RLY301] fine")
    found = bench_of(None, "t", NOW, USUAL).judge(text.encode()).problems
    assert [problem.code for problem in found if problem.severity is not Severity.INFO] == ["RLY301", "RLY904"]


def test_the_difference_hides_what_may_be_secret() -> None:
    old = f"{_HEAD}env:\n  DB_PASSWORD: 0123456\n  A: on".encode()
    new = _mend(old.decode()).data
    shown = difference("t.yaml", old, new)
    assert "0123456" in new.decode() and "0123456" not in shown
    assert shown.startswith("--- t.yaml\n+++ t.yaml\n@@ -")
    assert "-  DB_PASSWORD: *******\n" in shown and '+  DB_PASSWORD: "*******"\n' in shown
    assert shown.count("\\ No newline at end of file\n") == 2
    plain = difference("t.yaml", b"runtime: pyhton\r\n", b"runtime: python\r\n")
    assert plain == "--- t.yaml\n+++ t.yaml\n@@ -1 +1 @@\n-runtime: pyhton\r\n+runtime: python\r\n"


def test_a_file_is_replaced_behind_its_link_with_its_mode(tmp_path: Path) -> None:
    real = write_app(tmp_path, "real", "old: 1\n") / "template.yaml"
    real.chmod(0o640)
    (tmp_path / "linked").mkdir()
    link = tmp_path / "linked" / "template.yaml"
    link.symlink_to("../real/template.yaml")
    overwrite(link, b"old: 1\n", b"new: 2\n")
    assert link.is_symlink() and real.read_bytes() == b"new: 2\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(os.listdir(real.parent)) == ["jobs.py", "template.yaml"]
    with pytest.raises(FileFailure, match="changed while it was being fixed"):
        overwrite(link, b"old: 1\n", b"newer: 3\n")
    assert real.read_bytes() == b"new: 2\n"
