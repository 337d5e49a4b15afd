"""A token stands in no word of any problem, wherever a template holds it: rules quote what they find."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.templates import checked, schedule

from relayctl.templates.secretshapes import starred

_TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
_NIGHTLY = schedule('cron: "5 4 * * *"')


@pytest.mark.parametrize(
    "text",
    [
        schedule(f'cron: "{_TOKEN}"'),
        schedule('cron: "5 4 * * *"', f"timezone: {_TOKEN}"),
        schedule('cron: "5 4 * * *"', f"timeout: {_TOKEN}"),
        schedule('cron: "5 4 * * *"', f"overlap: {_TOKEN}"),
        schedule('cron: "5 4 * * *"', f"{_TOKEN}: 1"),
        schedule('cron: "5 4 * * *"', name=_TOKEN),
        _NIGHTLY.replace("jobs.run", f"{_TOKEN}.run"),
        f"{_TOKEN}: 1\n{_NIGHTLY}",
        f"{_TOKEN}: 1\n{_TOKEN}: 2\n{_NIGHTLY}",
        f"x-a: *{_TOKEN}\n{_NIGHTLY}",
        f"x-a: !{_TOKEN} b\n{_NIGHTLY}",
    ],
    ids=["cron", "zone", "timeout", "choice", "key", "name", "handler", "top-key", "twice", "alias", "tag"],
)
def test_no_problem_repeats_a_token(tmp_path: Path, text: str) -> None:
    problems = checked(text, directory=tmp_path)[1]
    assert problems
    assert [problem for problem in problems if _TOKEN in repr(replace(problem, fix=None))] == []


def test_what_is_hidden_keeps_its_length_and_its_surroundings() -> None:
    assert starred(f'no module "{_TOKEN}"; the app has h') == f'no module "{"*" * len(_TOKEN)}"; the app has h'
    assert starred("https://me:s3cr3tive@host/x") == "https://me:*********@host/x"
    assert starred("https://me:${PASSWORD}@host/x") == "https://me:${PASSWORD}@host/x"
    assert starred("no time zone Europe/Rom") == "no time zone Europe/Rom"
