"""Small renderings: workflow annotations, colour, tables, handlers found by reading."""

from __future__ import annotations

from pathlib import Path

from relayctl.cli.sources import handler_place
from relayctl.core.problem import Place, Problem, Severity
from relayctl.render.annotations import github
from relayctl.render.paint import painted
from relayctl.render.table import columns

PROBLEM = Problem(
    code="RLY101",
    severity=Severity.WARNING,
    place=Place(file="apps/a,b/template.yaml", line=3, column=5, length=4),
    message="50% of\nit \x1b[31m",
    help="less",
)


def test_an_annotation_cannot_be_broken_out_of() -> None:
    line = github([PROBLEM])
    assert line == (
        "::warning file=apps/a%2Cb/template.yaml,line=3,col=5,endColumn=9,title=RLY101::"
        "50%25 of%0Ait \\x1b[31m; help: less\n"
    )


def test_colour_adds_nothing_but_colour() -> None:
    text = "a.yaml:1:2: error RLY101 x\n  |\n1 |   key: 1\n  |   ^^^ no\n"
    colored = painted(text, is_colored=True)
    assert "\x1b[1;31merror\x1b[0m" in colored and "\x1b[1m^^^\x1b[0m" in colored
    assert painted(text, is_colored=False) == text


def test_columns_are_aligned() -> None:
    assert columns([("A", "B"), ("long", "x")]) == "A      B\nlong   x\n"
    assert columns([]) == ""


def test_a_handler_is_found_by_reading(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "__init__.py").write_text("def first(event):\n    pass\n")
    (tmp_path / "jobs" / "late.py").write_text("raise SystemExit\n\nasync def run(event):\n    pass\n")
    assert handler_place(tmp_path, "python", "jobs.first").endswith("jobs/__init__.py:1")
    assert handler_place(tmp_path, "python3.12", "jobs.late.run").endswith("jobs/late.py:3")
    assert handler_place(tmp_path, "python", "absent.run") == ""
    assert handler_place(tmp_path, "exec", "bin/x.sh").endswith("bin/x.sh:1")
