"""The schema and the reader know the same keys, defaults and spellings."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from support.editing import BROKEN, FULL
from support.templates import checked

from relayctl.core.description import describe_app
from relayctl.core.duration import DurationError, parse_duration
from relayctl.core.model import App
from relayctl.templates.document import Document
from relayctl.templates.keys import levels
from relayctl.templates.read import read
from relayctl.templates.schema import template_schema
from relayctl.templates.shape import is_valid

_KINDS = {"schedules": "schedule", "events": "event", "services": "service"}
_BARE: dict[str, Any] = {
    "runtime": "python",
    "events": [{"handler": "events.created", "pattern": {"name": ["a"]}}],
    "schedules": [{"name": "nightly", "handler": "jobs.run", "cron": "0 3 * * *"}],
    "services": [{"name": "web", "entrypoint": "other.py", "port": 80, "check": {"path": "/"}}],
}


def _holder(level: str) -> dict[str, Any]:
    document = template_schema()
    kinds = document["definitions"]
    return {
        "": document,
        **{level: kinds[kind] for level, kind in _KINDS.items()},
        "resources": document["properties"]["resources"],
        "dst": kinds["schedule"]["properties"]["dst"],
        "check": kinds["service"]["properties"]["check"],
    }[level]["properties"]


def _shape(level: str, key: str) -> dict[str, Any]:
    found: dict[str, Any] = _holder(level)[key]
    return template_schema()["definitions"][found["$ref"].rpartition("/")[2]] if "$ref" in found else found


def _with(level: str, key: str, value: Any) -> dict[str, Any]:
    """The bare template with one key written."""
    document: dict[str, Any] = json.loads(json.dumps(_BARE))
    item = {
        "": lambda: document,
        "resources": lambda: document.setdefault("resources", {}),
        "dst": lambda: document["schedules"][0].setdefault("dst", {}),
        "check": lambda: document["services"][0]["check"],
    }.get(level, lambda: document[level][0])()
    for other in {"every": ["cron"], "command": ["entrypoint"]}.get(key, []):
        item.pop(other, None)
    item[key] = value
    return document


def _app(document: dict[str, Any]) -> App:
    app, problems = checked(json.dumps(document))
    assert app is not None, [problem.message for problem in problems if problem.is_error]
    return app


_KEYS = [(level, key) for level, keys in levels().items() for key in keys]


@pytest.mark.parametrize(("level", "key"), [each for each in _KEYS if "default" in _shape(*each)])
def test_writing_a_default_changes_nothing(level: str, key: str) -> None:
    written = describe_app(_app(_with(level, key, _shape(level, key)["default"])), "r")
    assert written == describe_app(_app(_BARE), "r")


@pytest.mark.parametrize(("level", "key"), _KEYS)
def test_the_reader_reads_every_key(level: str, key: str) -> None:
    bare = _app(_BARE)
    values = [*_shape(level, key).get("enum", ()), *_shape(level, key)["examples"]]
    assert any(_app(_with(level, key, value)) != bare for value in values), "no example makes a difference"


@pytest.mark.parametrize("broken", [each for each in BROKEN if each.name != "twice-the-same-key"], ids=lambda e: e.name)
def test_what_an_editor_underlines_the_schema_refuses(broken: Any) -> None:
    document = read(broken.text.encode(), "t.yaml")
    assert isinstance(document, Document)
    assert not is_valid(document.value)


def test_the_template_with_every_key_has_none_that_is_as_usual() -> None:
    app, problems = checked(FULL)
    assert app is not None and not [problem for problem in problems if problem.is_error]
    assert replace(app.schedules[0], place=None) != app.schedules[1]


@pytest.mark.parametrize(
    "text",
    [
        "20s",
        "1h30m",
        "500ms",
        "0s",
        "1d2h3m4s5ms",
        "007m",
        "",
        "20",
        "s",
        "1m1h",
        "1.5h",
        "-5s",
        "5s\n",
        "1h 30m",
        "5S",
    ],
)
def test_the_schema_takes_the_durations_that_the_reader_takes(text: str) -> None:
    document = _with("schedules", "backoff", [text])
    try:
        parse_duration(text)
    except DurationError:
        assert not is_valid(document)
    else:
        assert is_valid(document)
