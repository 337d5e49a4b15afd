"""How a service stands, in words and numbers, and as part of a heartbeat."""

from __future__ import annotations

import json

import pytest
from support.templates import checked

from relayctl.core.service import Phase, Replica, Trouble, Wanted, version_of
from relayctl.core.servicestanding import ServiceStanding, standing_of

WANTED = Wanted(version="v2", replicas=2)


def up(version: str = "v2") -> Replica:
    return Replica(version=version, phase=Phase.UP)


def trouble(failures: int = 1, version: str = "v2") -> Trouble:
    return Trouble(version=version, failures=failures, reason="exit code 1", retry_at=0.0)


@pytest.mark.parametrize(
    ("replicas", "troubles", "word", "detail"),
    [
        ({0: up(), 1: up()}, {}, "up", ""),
        ({0: up()}, {}, "starting", ""),
        ({0: up(), 1: Replica(version="v2", phase=Phase.STARTING)}, {}, "starting", ""),
        ({0: up()}, {1: trouble()}, "failing", "replica 1: exit code 1"),
        ({0: up()}, {1: trouble(4)}, "looping", "replica 1: exit code 1 (4 times in a row)"),
        ({}, {0: trouble(2), 1: trouble()}, "failing", "replica 0: exit code 1 (2 times in a row) (and 1 more)"),
        # It has come up again; whether it stays is not known yet, but once is no loop.
        ({0: up(), 1: up()}, {1: trouble()}, "up", ""),
        ({0: up(), 1: up()}, {1: trouble(3)}, "looping", "replica 1: exit code 1 (3 times in a row)"),
        # What an older definition did is no news.
        ({0: up()}, {1: trouble(9, "v1")}, "starting", ""),
        ({0: up("v1"), 1: up("v1")}, {}, "replacing", ""),
        ({1: up("v1")}, {0: trouble()}, "replacing",
         "replica 0: exit code 1; 1 of the definition before goes on until the new one is up"),
        ({0: up("v1"), 1: up("v1")}, {0: trouble()}, "replacing",
         "replica 0: exit code 1; 2 of the definition before go on until the new one is up"),
    ],
)  # fmt: skip
def test_words(replicas: dict[int, Replica], troubles: dict[int, Trouble], word: str, detail: str) -> None:
    standing = standing_of("app", "web", WANTED, replicas, troubles, 3)
    assert (standing.word, standing.detail) == (word, detail)
    assert standing.is_well == (word == "up")
    assert ServiceStanding.from_row(json.loads(json.dumps(standing.to_row()))) == standing
    assert ServiceStanding.from_row([*standing.to_row(), "of a newer worker"]) == standing


def test_a_version_covers_what_a_process_is_started_from_and_nothing_else() -> None:
    def version(service: str = "", head: str = "", code: str = "c1", directory: str = "/apps/app") -> str:
        app, problems = checked(
            f"runtime: python\n{head}services:\n  - {{name: web, entrypoint: service.py{service}}}\n"
        )
        assert app is not None, problems
        return version_of(app, app.services[0], code, directory)

    same = [
        version(", replicas: 7"),
        version(head="concurrency: 7\n"),
        version(head="events:\n  - {handler: jobs.run, pattern: {kind: [a]}}\n"),
    ]
    other = [
        version(", port: 3000"),
        version(head="env: {A: b}\n"),
        version(head="env: {A: c}\n"),
        version(head="secrets: {A: b}\n"),
        version(head="resources: {memory: 64MiB}\n"),
        version(head="resources: {pids: 7}\n"),
        version(code="c2"),
        version(directory="/apps/v2/app"),
        version(),
    ]
    assert set(same) == {version()}
    assert len(set(other)) == len(other)
    assert version(", port: 3000, check: {path: /}") == version(", port: 3000")
