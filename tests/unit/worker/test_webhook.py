"""`POST /hooks/git`: which signatures count, and that a wrong one demands nothing and is told once."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Any

import pytest

from relayctl.host.http import Request
from relayctl.worker.webhook import PATH, GitHook

SECRET = "It's a Secret to Everybody"
BODY = b"Hello, World!"
# GitHub's documentation gives this triple as an example.
DIGEST = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"


class Desk:
    def __init__(self, base: Path) -> None:
        self.file = base / "secret"
        self.file.write_text(f"{SECRET}\n")
        self.demands: list[int] = []
        self.facts: list[Any] = []
        self.hook = GitHook(self.file, lambda: self.demands.append(1), self.facts.append)

    def post(self, headers: dict[str, str], body: bytes = BODY) -> int:
        return self.hook.answer(Request(path=PATH, headers=headers, body=body)).status


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize(
    "headers",
    [
        {"x-hub-signature-256": f"sha256={DIGEST}"},
        {"x-gitea-signature": DIGEST},
        {"x-gitlab-token": SECRET},
        {"x-gitlab-token": "other", "x-hub-signature-256": f"sha256={DIGEST}"},
    ],
)
def test_a_right_signature_demands_a_fetch(desk: Desk, headers: dict[str, str]) -> None:
    assert desk.post(headers) == 202
    assert len(desk.demands) == 1


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({}, BODY),
        ({"x-hub-signature-256": f"sha256={DIGEST}"}, BODY + b"!"),
        ({"x-hub-signature-256": "sha256="}, BODY),
        ({"x-hub-signature-256": f"sha1={DIGEST}"}, BODY),
        ({"x-hub-signature-256": "sha256=\xff\udc80"}, BODY),
        ({"x-gitlab-token": ""}, BODY),
        ({"x-gitlab-token": SECRET[:-1]}, BODY),
        ({"x-hub-signature": hmac.new(SECRET.encode(), BODY, hashlib.sha1).hexdigest()}, BODY),
    ],
)
def test_a_wrong_one_demands_nothing(desk: Desk, headers: dict[str, str], body: bytes) -> None:
    assert desk.post(headers, body) == 401
    assert desk.demands == []
    [fact] = desk.facts
    assert SECRET not in fact.reason


def test_it_is_told_once_and_again_after_a_right_one(desk: Desk) -> None:
    for _ in range(3):
        desk.post({})
    assert len(desk.facts) == 1
    desk.post({"x-gitlab-token": SECRET})
    desk.post({})
    assert len(desk.facts) == 2


def test_a_secret_that_is_changed_counts_at_once_and_one_that_is_gone_lets_nobody_in(desk: Desk) -> None:
    desk.file.write_text("another")
    assert desk.post({"x-gitlab-token": SECRET}) == 401
    assert desk.post({"x-gitlab-token": "another"}) == 202
    desk.file.write_text("")
    assert desk.post({"x-gitlab-token": ""}) == 503
    desk.file.unlink()
    assert desk.post({"x-gitlab-token": "another"}) == 503
    assert len(desk.demands) == 1
