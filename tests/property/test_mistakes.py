"""Single mistakes in a good template: the finding is on the line of the mistake, and names the way out."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.templates import MODELINE, checked

from relayctl.core.problem import Problem, Severity

GOOD = f"""{MODELINE}runtime: python
concurrency: 2
isolation: warm
resources:
  memory: 256MiB
  cpus: 0.5
  pids: 64
env:
  API_URL: https://api.example.com
secrets:
  DATABASE_URL: database-url
events:
  - handler: events.run
    pattern:
      event_name: [order]
      amount: [{{gt: 1}}]
    timeout: 6s
    retries: 1
schedules:
  - name: nightly
    handler: jobs.run
    cron: "0 12 * * *"
    timezone: Europe/Rome
    dst: {{gap: run, fold: first}}
    timeout: 20s
    retries: 2
    backoff: [1s, 5s]
    enabled: true
    overlap: skip
    catch_up: none
    jitter: 30s
    input:
      rows: 10
    moved_from: other/older
    description: every day
  - name: often
    handler: jobs.run
    every: 15m
services:
  - name: web
    entrypoint: serve.py
    port: 3000
    replicas: 2
    check:
      path: /healthz
      interval: 10s
  - name: own
    command: [./x, "-y"]
"""
LINES = GOOD.splitlines()
FREE = {"rows", "event_name", "amount", "gt"}
"""Keys that an author chooses."""
_KEY = re.compile(r"(?:^ *(?:- )?|[{,] ?)([a-z_]+):(?= |$)")
_ENTRY = re.compile(r"( *(?:- )?[A-Za-z_]+:) .+")
_WRONG = ("{a: 1}", "[1, 2]", "true", "3.5", '"text !"', "", "-1", "~")

Mistake = tuple[int, str]
"""A line number and what stands on it."""


def _typos(key: str) -> Iterator[str]:
    middle = len(key) // 2
    if len(key) > 3:
        yield key[: middle - 1] + key[middle] + key[middle - 1] + key[middle + 1 :]
        yield key[:middle] + key[middle + 1 :]
    yield key[0] + key
    yield key[:-1] + ("y" if key.endswith("x") else "x")
    yield key.capitalize()
    yield key[:-1] if key.endswith("s") else f"{key}s"


def _misspelt() -> list[tuple[int, str, str]]:
    """Line, what stands on it, and the key that was meant."""
    return [
        (number, line[: found.start(1)] + typo + line[found.end(1) :], found[1])
        for number, line in enumerate(LINES, 1)
        for found in _KEY.finditer(line)
        if found[1] not in FREE
        for typo in _typos(found[1])
        if typo != found[1]
    ]


def _mistyped() -> list[Mistake]:
    found = [(number, _ENTRY.fullmatch(line)) for number, line in enumerate(LINES, 1)]
    return [(number, f"{entry[1]} {wrong}".rstrip()) for number, entry in found if entry for wrong in _WRONG]


def _misplaced() -> list[Mistake]:
    return [
        (number, " " * by + line if by > 0 else line[-by:])
        for number, line in enumerate(LINES[1:], 2)
        for by in (1, 2, 3, -1, -2)
        if by > 0 or line.startswith(" " * -by)
    ]


def _findings(number: int, line: str) -> tuple[bool, list[Problem]]:
    app, found = checked("\n".join([*LINES[: number - 1], line, *LINES[number:]]) + "\n")
    return app is not None, [problem for problem in found if problem.severity is not Severity.INFO]


def test_the_template_is_good() -> None:
    assert _findings(1, LINES[0]) == (True, [])


@pytest.fixture(params=[40, pytest.param(None, marks=pytest.mark.slow)], ids=["some", "all"])
def choose(request: pytest.FixtureRequest) -> Callable[[list[Any]], list[Any]]:
    """Some of the mistakes, the same ones each time, or all of several hundred."""
    count: int | None = request.param
    return lambda mistakes: mistakes if count is None else random.Random(1).sample(mistakes, count)


Choose = Callable[[list[Any]], list[Any]]


def test_a_misspelt_key_is_found_where_it_is_and_known_again(choose: Choose) -> None:
    mistakes = choose(_misspelt())
    known = 0
    for number, line, meant in mistakes:
        is_app, found = _findings(number, line)
        assert not is_app, line
        assert {problem.place.line for problem in found} == {number}, (line, found)
        known += any(f'did you mean "{meant}"?' == problem.help for problem in found)
    assert known >= len(mistakes) * 0.9


def test_a_value_of_another_type_is_found_where_it_is(choose: Choose) -> None:
    for number, line in choose(_mistyped()):
        is_app, found = _findings(number, line)
        assert is_app or {problem.place.line for problem in found} == {number}, (line, found)


def test_a_line_that_is_indented_wrongly_is_found_where_it_is(choose: Choose) -> None:
    for number, line in choose(_misplaced()):
        is_app, found = _findings(number, line)
        # Some may stand there too: the only line of a block, or a key of a value that an author chooses.
        assert is_app or number in {problem.place.line for problem in found}, (line, found)
        assert is_app or all(abs(problem.place.line - number) <= 1 for problem in found), (line, found)
