"""Text that a template brings along can neither steer the terminal nor add lines to what a command says."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.console import relayctl

_TEMPLATE = r"""runtime: python
events:
  - handler: work.run
    pattern: {"key\u202e": ["value\u202e", {prefix: "p\e[32m"}]}
schedules:
  - name: nightly
    handler: work.run
    cron: "5 4 * * *"
    description: "tidies\e[31m \u202e up\n  source     elsewhere"
services:
  - name: web
    command: ["sh\e[31m\u202e", "one\nforged row"]
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("inspect", "hostile", "--offline"), r"sh\x1b[31m\u202e one forged row"),
        (("inspect", "hostile/nightly", "--offline"), r"tidies\x1b[31m \u202e up source elsewhere"),
        (("plan",), r"sh\x1b[31m\u202e one forged row"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_a_template_says_stays_on_its_line_and_is_spelled_out(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    app = tmp_path / "apps" / "hostile"
    app.mkdir(parents=True)
    (app / "template.yaml").write_text(_TEMPLATE, encoding="utf-8")
    (app / "work.py").write_text("def run(event):\n    pass\n", encoding="utf-8")
    answer = relayctl(*arguments, cwd=tmp_path)
    assert (answer.code, answer.err) == (0, "")
    assert said in answer.out
    assert all(char.isprintable() for line in answer.out.splitlines() for char in line)


def test_the_list_of_files_spells_out_their_names(tmp_path: Path) -> None:
    app = tmp_path / "apps" / "b\x1b[31mad"
    app.mkdir(parents=True)
    (app / "template.yaml").write_text("runtime: python\n", encoding="utf-8")
    answer = relayctl("validate", "--list-files", cwd=tmp_path)
    assert answer.out == "apps/b\\x1b[31mad/template.yaml\n"
