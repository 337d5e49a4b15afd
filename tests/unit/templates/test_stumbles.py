"""What stops a parser is found everywhere at once, and nowhere that it is text or an alias."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from support.templates import NOW

from relayctl.core.names import AppName
from relayctl.core.problem import Problem
from relayctl.templates.document import Document
from relayctl.templates.fixes.app import Bench
from relayctl.templates.fixes.rounds import Judged, Mended, mended
from relayctl.templates.read import read

_HEAD = "runtime: python\nevents:\n  - handler: jobs.run\n    pattern: {type: [x]}\nschedules:\n"


def _bench() -> Bench:
    return Bench(file="t.yaml", name=AppName("t"), directory=None, now=NOW)


def _mended(text: str) -> Mended:
    return _bench().mend(text.encode(), lambda problem: problem.fix is not None and problem.fix.is_safe)


def _found(text: str) -> list[tuple[str, int, int]]:
    found = read(text.encode(), "t.yaml")
    assert isinstance(found, list)
    return [(problem.code, problem.place.line, problem.place.column) for problem in found]


def test_every_value_that_lacks_its_quotes_is_found_with_the_first() -> None:
    text = "a: */5 * * * *\nb:\n  - @daily\n  - {c: */7 1 * * *, d: `x`}\n  - e: %f\ng: fine\nh: *i\n"
    assert _found(text) == [
        ("RLY003", 1, 4),
        ("RLY004", 3, 5),
        ("RLY003", 4, 9),
        ("RLY002", 4, 25),
        ("RLY002", 5, 8),
    ]


def test_a_collection_may_go_on_over_lines() -> None:
    text = "a: [{\n  c: */5 * * * *,\n  d: @daily},\n  {c: */7 1 * * *}]\nb: */5 1,2 * * *\n"
    mended = text.replace("*/5 * * * *", '"*/5 * * * *"').replace("@daily", '"@daily"')
    mended = mended.replace("*/7 1 * * *", '"*/7 1 * * *"').replace("*/5 1,2 * * *", '"*/5 1,2 * * *"')
    assert _mended(text).data.decode() == mended


def test_tabs_are_found_beside_them() -> None:
    text = "a: */5 * * * *\nb:\n\tc: 1\n\td:\n\t\t- e: @daily\n"
    assert _found(text) == [("RLY003", 1, 4), ("RLY005", 3, 1), ("RLY005", 4, 1), ("RLY005", 5, 1), ("RLY004", 5, 8)]
    assert _mended(text).data.decode() == 'a: "*/5 * * * *"\nb:\n  c: 1\n  d:\n    - e: "@daily"\n'


def test_what_only_looks_like_it_stays() -> None:
    text = (
        "x-a: &base {z: 1}\na: */5 * * * *\nb: |\n  cron: */5 * * * *\n  \tx: @daily\nc: *base\n"
        'd: "first\n  cron: */5 * * * *\n  last"\n# e: @daily\nf: g\n'
    )
    assert _found(text) == [("RLY003", 2, 4)]
    assert _mended(text).data.decode() == text.replace("a: */5 * * * *", 'a: "*/5 * * * *"', 1)


def test_what_stands_behind_another_mistake_is_mended_up_to_it() -> None:
    text = "a: */1 * * * *\nb: */2 * * * *\nc: ]\nd: */3 * * * *\n"
    assert [line for _, line, _ in _found(text)] == [1, 2]


def test_thousands_of_them_take_seconds() -> None:
    lines = (
        f"  - name: s{number}\n    cron: */{number % 58 + 2} * * * *\n    handler: jobs.run\n    input: {{a: {number}}}\n"
        for number in range(1000)
    )
    text = _HEAD + "".join(lines)
    began = time.process_time()
    done = _mended(text)
    assert time.process_time() - began < 10  # one by one it takes some minutes
    assert len(done.fixed) == 1000
    assert isinstance(read(done.data, "t.yaml"), Document)


def test_one_fix_that_does_harm_costs_few_looks() -> None:
    text = "".join(f"k{number}: */5 * * * *\n" for number in range(256))
    offered = read(text.encode(), "t.yaml")
    assert isinstance(offered, list)
    bad = offered[100].place.line
    looks = 0

    def judge(data: bytes) -> Judged:
        nonlocal looks
        looks += 1
        lines = data.decode().splitlines()
        left: list[Problem] = [problem for problem in offered if '"' not in lines[problem.place.line - 1]]
        left = [_named(problem) for problem in left]
        if '"' in lines[bad - 1]:
            left += [_named(offered[100], "RLY999"), _named(offered[100], "RLY998")]
        return Judged(problems=left, is_readable=True)

    done = mended(text.encode(), judge, lambda _: True)
    assert len(done.fixed) == 255
    assert [refusal.problem.place.line for refusal in done.refused] == [bad]
    assert looks < 60


def _named(problem: Problem, code: str = "RLY003") -> Problem:
    return replace(problem, code=code, place=replace(problem.place, path=str(problem.place.line)))


def test_a_file_that_is_named_is_judged_as_its_tree_is(tmp_path: Path) -> None:
    bench = _bench()
    done = bench.mend(b"a: */5 * * * *\nb: @daily\n", lambda _: True)
    loaded = bench.loaded(tmp_path, done)
    assert loaded is not None
    assert [problem.code for problem in loaded.problems] == [
        problem.code for problem in bench.judge(done.data).problems
    ]
