"""`secret`: a value goes in, is used by a run, and is seen nowhere on the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.console import relayctl

VALUE = b"hunter2-and-more\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    app = tmp_path / "apps" / "shop"
    app.mkdir(parents=True)
    (app / "template.yaml").write_text(
        "runtime: python\nsecrets: {TOKEN: shop-token}\nevents:\n  - {handler: work.run, pattern: {name: [x]}}\n"
    )
    (app / "work.py").write_text(
        "import os\n\n\ndef run(event):\n    token = os.environ['TOKEN']\n    print(len(token), token)\n"
    )
    return tmp_path


def test_a_value_is_kept_used_and_forgotten(tree: Path) -> None:
    missing = relayctl("invoke", "shop/work.run", "--local", cwd=tree)
    assert missing.code == 3 and "relayctl secret set shop-token" in missing.err
    kept = relayctl("secret", "set", "shop-token", cwd=tree, stdin=VALUE)
    assert (kept.code, kept.out) == (0, "")
    ran = relayctl("invoke", "shop/work.run", "--local", cwd=tree)
    assert (ran.code, ran.out) == (0, "16 ***\n")
    assert relayctl("secret", "ls", cwd=tree).out == "shop-token\n"
    assert json.loads(relayctl("secret", "ls", "--format", "json", cwd=tree).out) == {"v": 1, "secrets": ["shop-token"]}
    assert "hunter2" not in kept.err + ran.err
    assert relayctl("secret", "rm", "shop-token", cwd=tree).code == 0
    again = relayctl("secret", "rm", "shop-token", cwd=tree)
    assert again.code == 2 and 'no secret "shop-token"' in again.err
    assert relayctl("secret", "ls", cwd=tree).out == ""


def test_the_place_is_private_and_hidden_from_git(tree: Path) -> None:
    relayctl("secret", "set", "shop-token", cwd=tree, stdin=VALUE)
    state = tree / ".relayctl"
    assert (state / ".gitignore").read_text() == "*\n"
    places = (state, state / "secrets", state / "secrets" / "shop-token")
    assert [place.stat().st_mode & 0o077 for place in places] == [0, 0, 0]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("Hunter2!", VALUE, "not a name"),
        ("shop-token", b"", "no value on stdin"),
        ("shop-token", b"\n", "no value on stdin"),
        ("shop-token", b"hunter2\xff", "not UTF-8"),
        ("shop-token", b"hunter2\0", "zero byte"),
        ("shop-token", b"hunter2" * 200_000, "larger than"),
    ],
    ids=["name", "empty", "blank", "bytes", "zero", "large"],
)
def test_what_cannot_be_kept_is_refused_and_not_repeated(tree: Path, name: str, value: bytes, said: str) -> None:
    answer = relayctl("secret", "set", name, cwd=tree, stdin=value)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err and "unter2" not in answer.err
    assert relayctl("secret", "ls", cwd=tree).out == ""
