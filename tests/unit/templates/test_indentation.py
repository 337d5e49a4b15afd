"""Of lines that do not stand together the one that is off is named, where the file tells which that is."""

from __future__ import annotations

import pytest

from relayctl.core.problem import Problem
from relayctl.templates.keys import closest
from relayctl.templates.read import read

_SERVICE = "runtime: python\nservices:\n  - name: web\n    command: [./serve]\n    port: 8080\n"
_TOP = "runtime: python\nservices:\n  - name: web\n    entrypoint: server.py\n"
_PATTERN = (
    "runtime: python\nevents:\n  - handler: jobs.paid\n    pattern:\n      event_name: [paid]\n      status: [ok]\n"
    "schedules:\n  - name: a\n    every: 1h\n    handler: jobs.run\n"
)


@pytest.mark.parametrize(
    ("text", "line", "by", "right"),
    [(_SERVICE, 3, 1, 2), (_SERVICE, 3, -1, 2), (_TOP, 1, 1, 0), (_PATTERN, 5, 1, 6), (_PATTERN, 5, -1, 6),
     (_PATTERN, 8, -1, 2)],
)  # fmt: skip
def test_the_line_that_is_off_is_named(text: str, line: int, by: int, right: int) -> None:
    lines = text.splitlines()
    own = lines[line - 1]
    lines[line - 1] = " " * (len(own) - len(own.lstrip()) + by) + own.lstrip()
    found = read("\n".join(lines).encode(), "t.yaml")
    assert isinstance(found, list) and isinstance(found[0], Problem)
    assert (found[0].place.line, found[0].help) == (line, f"indent it by {right} spaces")


def test_letters_in_another_order_are_the_same_word() -> None:
    assert closest("evn", ["events", "env"]) == "env"
    assert closest("on", ["no"]) is None
