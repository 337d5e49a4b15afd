"""Fixes of generated broken templates: each cures its finding, brings no other, changes nothing else, and once is enough."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.templates import NOW

from relayctl.core.problem import Problem
from relayctl.templates.fixes.app import bench_of
from relayctl.templates.rules.engine import USUAL


@dataclass(frozen=True)
class Slip:
    """Lines of one schedule as they were written and as the fix leaves them."""

    code: str
    bad: tuple[str, ...]
    good: tuple[str, ...]
    is_safe: bool = True


def _slip(code: str, bad: str, good: str, *, is_safe: bool = True) -> Slip:
    def with_trigger(line: str) -> tuple[str, ...]:
        lines = tuple(line.split("\n"))
        has_one = any(each.startswith(("cron", "every")) for each in lines)
        return lines if has_one else (*lines, "every: 7h")

    return Slip(code, with_trigger(bad), with_trigger(good), is_safe)


SLIPS = (
    _slip("RLY003", "cron: */5 * * * *", 'cron: "*/5 * * * *"'),
    _slip("RLY004", "cron: @daily", 'cron: "@daily"'),
    _slip("RLY008", "enabled: yes", "enabled: true"),
    _slip("RLY008", "enabled: Off", "enabled: false"),
    _slip("RLY010", "description: 1.10", 'description: "1.10"'),
    _slip("RLY101", "retires: 2", "retries: 2", is_safe=False),
    _slip("RLY101", "'time-out': 6s", "'timeout': 6s", is_safe=False),
    _slip("RLY103", 'retries: "2"', "retries: 2"),
    _slip("RLY103", "retries: 2.0", "retries: 2"),
    _slip("RLY103", "enabled: 'true'", "enabled: true"),
    _slip("RLY103", "description: 12", 'description: "12"'),
    _slip("RLY103", "backoff: 5s", "backoff: [5s]", is_safe=False),
    _slip("RLY107", "timeout: 20 sec", "timeout: 20s"),
    _slip("RLY107", "timeout: '1.5h'", "timeout: '90m'"),
    _slip("RLY107", "every: 2 hours", "every: 2h"),
    _slip("RLY107", "timeout: 20", "timeout: 20s", is_safe=False),
    _slip("RLY204", 'cron: "CRON_TZ=Asia/Tokyo 0 12 * * *"', 'cron: "0 12 * * *"\ntimezone: Asia/Tokyo'),
    _slip("RLY204", "cron: 'TZ=UTC 0 12 * * *'\ntimezone: UTC", "cron: '0 12 * * *'\ntimezone: UTC"),
    _slip("RLY207", 'cron: "0 9 1 * 1"', 'cron: "0 9 1 * *"', is_safe=False),
    _slip("RLY208", "cron: '*/7 * * * *'", "cron: '*/6 * * * *'", is_safe=False),
    _slip("RLY208", 'cron: "0 */9 * * *"', 'cron: "0 */8 * * *"', is_safe=False),
    _slip("RLY209", 'cron: "*/60 * * * *"', 'cron: "0 * * * *"', is_safe=False),
    _slip("RLY209", 'cron: "*/90 * * * *"', 'every: "90m"', is_safe=False),
    _slip("RLY211", "cron: 59/15 3 * * *", "cron: 59 3 * * *", is_safe=False),
    _slip("RLY212", "cron: '5-5 3 * * *'", "cron: '5 3 * * *'", is_safe=False),
    _slip("RLY213", 'cron: "0 22-2 * * *"', 'cron: "0 22-23,0-2 * * *"'),
    _slip("RLY216", 'cron: "0 3 * */1 7"', 'cron: "0 3 * * 0"'),
    _slip(
        "RLY301", 'cron: "0 12 * * *"\ntimezone: Europe/Rom', 'cron: "0 12 * * *"\ntimezone: Europe/Rome', is_safe=False
    ),
    _slip("RLY303", 'cron: "0 12 * * *"\ntimezone: "Asia/Calcutta"', 'cron: "0 12 * * *"\ntimezone: "Asia/Kolkata"'),
    _slip("RLY901", 'cron: "0 3 * * *"  # relay: ignore[RLY207] x', 'cron: "0 3 * * *"'),
    _slip("RLY901", '# relay: ignore[RLY208] x\ncron: "0 3 * * *"', 'cron: "0 3 * * *"'),
    _slip(
        "RLY901",
        'cron: "0 9 1 * 1"  # relay: ignore[RLY208, RLY207] wanted',
        'cron: "0 9 1 * 1"  # relay: ignore[RLY207] wanted',
    ),
)
ENV = (
    ("RLY008", "  DEBUG: on", '  DEBUG: "on"'),
    ("RLY009", "  AT: 12:30", '  AT: "12:30"'),
    ("RLY010", "  SHA: 0757192", '  SHA: "0757192"'),
    ("RLY005", "\tPLACE: here", "  PLACE: here"),
)


def _text(
    env: list[str], parts: list[tuple[str, ...]], names: list[str], handler: str, remarks: list[str]
) -> list[str]:
    lines = ["runtime: python", "services:", "  - name: web", "    command: [./serve]", "", "env:", *env, ""]
    lines += ["#  what is due", "schedules:"]
    for name, part, remark in zip(names, parts, remarks, strict=True):
        first = f"{part[0]}  # {remark}" if remark else part[0]
        lines += [
            f"  - name: {name}",
            f"    handler: jobs.{handler}   # run",
            *(f"    {line}" for line in (first, *part[1:])),
        ]
    return [*lines, "    input: {kept:   [a,b], 'too' : \"x\"}"]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fix-laws")
    (root / "schemas").mkdir()
    (root / "schemas" / "template.schema.json").write_text("{}")
    directory = root / "apps" / "sample"
    directory.mkdir(parents=True)
    (directory / "jobs.py").write_text("def cleanup(event):\n    return event\n")
    return directory


def _wants(problem: Problem) -> bool:
    return problem.code != "RLY504"


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_every_fix_writes_what_was_meant_and_nothing_else(app: Path, data: st.DataObject) -> None:
    slips = data.draw(st.lists(st.sampled_from(SLIPS), min_size=1, max_size=6))
    env = data.draw(st.lists(st.sampled_from(ENV), unique=True, max_size=4))
    is_env_bad, is_handler_bad, is_name_bad = data.draw(st.tuples(st.booleans(), st.booleans(), st.booleans()))
    newline = data.draw(st.sampled_from(["\n", "\r\n"]))
    tail, mark = data.draw(st.sampled_from(["", newline])), data.draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    words = data.draw(st.text(st.characters(categories=["L", "N", "So"]), max_size=8))
    remarks = ["" if slip.code == "RLY901" else words for slip in slips]
    names = [f"s{at}" for at in range(len(slips))]

    def file(lines: list[str]) -> bytes:
        return mark + (newline.join(lines) + tail).encode()

    bad = _text(
        ["  X: one", *(line if is_env_bad else good for _, line, good in env)],
        [slip.bad for slip in slips],
        ["S 0" if is_name_bad else "s0", *names[1:]],
        "clenup" if is_handler_bad else "cleanup",
        remarks,
    )
    names[0] = "s-0" if is_name_bad else "s0"
    good = _text(["  X: one", *(good for *_, good in env)], [slip.good for slip in slips], names, "cleanup", remarks)
    good.insert(0, "# yaml-language-server: $schema=../../schemas/template.schema.json")
    bench = bench_of(app, "apps/sample/template.yaml", NOW, USUAL)
    mended = bench.mend(file(bad), _wants)
    assert mended.data.decode() == file(good).decode()
    assert mended.refused == ()
    assert {slip.code for slip in slips} <= {problem.code for problem in mended.fixed}
    left = bench.judge(mended.data)
    assert left.is_readable
    assert not [problem for problem in left.problems if problem.is_error]
    assert bench.mend(mended.data, _wants).data == mended.data


@settings(max_examples=20, deadline=None)
@given(slips=st.lists(st.sampled_from(SLIPS), min_size=1, max_size=4))
def test_safe_fixes_leave_what_changes_the_meaning(app: Path, slips: list[Slip]) -> None:
    names = [f"s{at}" for at in range(len(slips))]
    remarks = ["" for _ in slips]
    bad = _text(["  X: one"], [slip.bad for slip in slips], names, "cleanup", remarks)
    good = _text(["  X: one"], [slip.good if slip.is_safe else slip.bad for slip in slips], names, "cleanup", remarks)
    bench = bench_of(app, "apps/sample/template.yaml", NOW, USUAL)

    def is_safe(problem: Problem) -> bool:
        return problem.code not in {"RLY504", "RLY111"} and problem.fix is not None and problem.fix.is_safe

    mended = bench.mend("\n".join(bad).encode(), is_safe)
    # An ignore is called unused only where no error is left.
    assume(all(slip.is_safe for slip in slips) or all(slip.code != "RLY901" for slip in slips))
    assert mended.data.decode() == "\n".join(good)
