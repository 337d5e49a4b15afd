"""Mangled templates: never an exception, never silently fine, and the validators and the evaluator agree throughout."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import INVALID
from support.templates import NOW, checked

from relayctl.core.cron import Cron
from relayctl.core.cronerror import CronError
from relayctl.core.names import AppName
from relayctl.render import problems as render
from relayctl.templates.load import check_text
from relayctl.templates.schema import template_schema
from relayctl.templates.shape import detailed, is_valid

_FULL: dict[str, Any] = {
    "runtime": "python",
    "concurrency": 2,
    "isolation": "warm",
    "resources": {"memory": "256MiB", "cpus": 0.5, "pids": 64},
    "env": {"API_URL": "https://api.example.com", "N": 3},
    "secrets": {"DATABASE_URL": "database-url"},
    "events": [{"handler": "events.run", "pattern": {"a": ["x"], "b": {"c": [{"gt": 1}]}}, "timeout": "6s"}],
    "schedules": [
        {
            "name": "nightly",
            "handler": "jobs.run",
            "cron": "0 3 * * *",
            "timezone": "Europe/Rome",
            "dst": {"gap": "run", "fold": "first"},
            "timeout": "20s",
            "retries": 2,
            "backoff": ["1s"],
            "enabled": True,
            "overlap": "skip",
            "catch_up": "none",
            "jitter": "30s",
            "input": {"x": [1]},
            "moved_from": "a/b",
            "description": "d",
        },
        {"name": "often", "handler": "jobs.run", "every": "15m"},
    ],
    "services": [
        {"name": "web", "entrypoint": "s.py", "port": 3000, "replicas": 2, "check": {"path": "/x", "interval": "1s"}},
        {"name": "own", "command": ["./x", "-y"]},
    ],
}
_WRONG = (None, 2.5, True, -1, "text", "", [], [1], [None], {}, {"x": 1}, 10**30)


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _paths(inner, (*path, key))


def _replaced(path: tuple[str | int, ...], new: Any) -> dict[str, Any]:
    document = copy.deepcopy(_FULL)
    holder: Any = document
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = new
    return document


def _check(text: str) -> bool:
    """Whether the text is an app; whatever it is, its problems can be shown in every form."""
    app, problems, _ = check_text(
        text.encode("utf-8", "surrogatepass"), "apps/a/template.yaml", AppName("a"), None, NOW
    )
    assert (app is None) == any(problem.is_error for problem in problems)
    assert "Traceback" not in render.text(problems, {}, 60, False)
    json.loads(render.as_json(problems))
    for problem in problems:
        assert problem.message
        assert problem.place.line >= 1 <= problem.place.column
    return app is not None


def test_the_template_to_be_mangled_is_good() -> None:
    assert _check(json.dumps(_FULL))


@pytest.mark.parametrize("path", list(_paths(_FULL)), ids=lambda path: ".".join(map(str, path)))
def test_a_wrong_value_at_every_place(path: tuple[str | int, ...]) -> None:
    for wrong in _WRONG:
        document = _replaced(path, wrong)
        agreed = is_valid(document)
        assert agreed == (not list(detailed().iter_errors(document)))
        is_app = _check(json.dumps(document))
        assert agreed or not is_app
        if wrong is None and path[0] != "events" and "input" not in path:
            assert not is_app


@pytest.mark.parametrize("path", list(_paths(_FULL)), ids=lambda path: ".".join(map(str, path)))
def test_a_missing_value_at_every_place(path: tuple[str | int, ...]) -> None:
    document = copy.deepcopy(_FULL)
    holder: Any = document
    for part in path[:-1]:
        holder = holder[part]
    del holder[path[-1]]
    agreed = is_valid(document)
    assert agreed == (not list(detailed().iter_errors(document)))
    assert agreed or not _check(json.dumps(document))


@pytest.mark.parametrize("seed", range(30))
def test_mangled_text(seed: int) -> None:
    chance = random.Random(seed)
    good = json.dumps(_FULL, indent=1) if seed % 2 else _block()
    for _ in range(10):
        text = good
        for _ in range(chance.randint(1, 6)):
            at, end = sorted((chance.randrange(len(text) + 1), min(len(text), chance.randrange(len(text) + 1))))
            piece = chance.choice(
                [
                    "",
                    "\t",
                    "*",
                    "@",
                    "&a ",
                    "*a",
                    "!x ",
                    "\x00",
                    "\x1b",
                    "é",
                    ": ",
                    "- ",
                    "\n",
                    "'",
                    "{",
                    "]",
                    "9" * 400,
                ]
            )
            text = text[:at] + piece + text[chance.choice((at, end, min(at + 1, len(text)))) :]
        _check(text)


@pytest.mark.parametrize("seed", range(20))
def test_mangled_cases_leak_nothing(seed: int) -> None:
    chance = random.Random(seed)
    secret = "ghp_" + "Ab1" * 12
    files = sorted(INVALID.glob("*/apps/*/template.yaml"))
    for _ in range(10):
        data = chance.choice(files).read_bytes().decode("utf-8", "replace")
        lines = [*data.splitlines(), f"env:{chance.choice(['', ' ', chr(9)])}", f"  SECRET_X: {secret}"]
        for _ in range(chance.randint(0, 4)):
            at = chance.randrange(len(lines))
            lines[at] = chance.choice(
                ["{}", "  {}", "{}'", '"{}', "{}: *", "- {}", "{} &a", "!t {}", "{} #", "\t{}"]
            ).format(lines[at].replace("{", "").replace("}", ""))
        text = "\n".join(lines)
        _, problems, _ = check_text(text.encode(), "t.yaml", AppName("a"), None, NOW)
        shown = render.text(problems, {"t.yaml": text}, 80, True) + render.concise(problems) + render.as_json(problems)
        assert secret[4:16] not in shown, text


def _block() -> str:
    lines = []
    for key, value in _FULL.items():
        if isinstance(value, list):
            lines.append(f"{key}:")
            for item in value:
                for number, (name, inner) in enumerate(item.items()):
                    lines.append(f"  {'- ' if number == 0 else '  '}{name}: {json.dumps(inner)}")
        else:
            lines.append(f"{key}: {json.dumps(value)}")
    return "\n".join(lines) + "\n"


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(list(_paths(_FULL))), _json | st.sampled_from(["a\n", "x-y", "python\n", "0s", "a b", "1/1"]))
def test_both_validators_agree(path: tuple[str | int, ...], value: Any) -> None:
    document = _replaced(path, value)
    assert is_valid(document) == (not list(detailed().iter_errors(document)))


_fields = st.lists(
    st.sampled_from(
        [
            "*",
            "0",
            "7",
            "8",
            "59",
            "60",
            "*/5",
            "1-5",
            "5-1",
            "WED-7",
            "0,7",
            "sun",
            "MON-FRI",
            "5/7",
            "L",
            "?",
            "1,,2",
            "JAN",
        ]
    ),
    min_size=1,
    max_size=7,
)


@settings(deadline=None, max_examples=500)
@given(
    st.one_of(
        st.builds(
            lambda words, gap, edge: f"{edge}{gap.join(words)}{edge}",
            _fields,
            st.sampled_from([" ", "  ", "\t"]),
            st.sampled_from(["", " ", "\t"]),
        ),
        st.sampled_from(
            [
                "@daily",
                " @weekly ",
                "@Daily",
                "@every 5m",
                "@reboot",
                "@daily 03:00",
                "0 0 * * 7",
                "0 0 * * 8",
                "0 3 * * *\n",
                "",
            ]
        ),
        st.text(max_size=20),
    )
)
def test_the_schema_and_the_evaluator_have_one_verdict(expression: str) -> None:
    schedule = {"name": "a", "handler": "jobs.run", "cron": expression}
    document = {"runtime": "python", "schedules": [schedule], "services": [{"name": "w", "command": ["x"]}]}
    try:
        Cron.parse(expression)
    except CronError as error:
        app, _ = checked(json.dumps(document))
        assert app is None
        # The direction of a range is beyond a pattern that people can still read.
        assert error.code == "RLY213" or not is_valid(document)
        return
    assert is_valid(document)
    assert template_schema()
