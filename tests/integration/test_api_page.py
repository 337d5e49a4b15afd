"""The page on the Python API: its app is written down, and its examples are run one after the other, as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from relayctl.store.definitions import Definitions
from relayctl.store.keys import Keys

if TYPE_CHECKING:
    import redis
    from support.broker import PrivateBroker

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
ADDRESS = "redis://localhost:6379/0"


@pytest.mark.one_server
def test_the_examples_run(
    broker: PrivateBroker,
    redis_client: redis.Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    known: dict[str, Any] = {"__name__": "page"}
    page = PAGE.read_text()
    for block in re.finditer(r"```(?:python|yaml)\n(.*?)```", page, re.DOTALL):
        text = block[1]
        if named := re.match(r"# (\S+)\n", text):
            path = Path(named[1])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            continue
        line = page[: block.start(1)].count("\n")
        exec(compile("\n" * line + text.replace(ADDRESS, broker.url), str(PAGE), "exec"), known)
    known["client"].close()
    said = capsys.readouterr().out
    assert "redis://localhost:1 cannot be reached: connection refused - start it" in said
    assert "create billing invoices" in said
    assert "billing reminders created 1" in said
    assert "schedule:billing:invoices:" in said
    assert 'no schedule "billing/invoice" runs - did you mean "billing/invoices"?' in said
    assert redis_client.hget("{relay}:deployed-by-us", "billing") == "2026.10"
    assert redis_client.get("{relay}:quota") == "1"
    assert Definitions(redis_client, Keys("from-releases")).all_names() == {
        ("billing", "invoices"),
        ("billing", "reminders"),
    }


def test_the_page_names_every_public_function() -> None:
    from relayctl import api

    page = PAGE.read_text()
    for name in (
        "plan",
        "apply",
        "trigger",
        "pause",
        "resume",
        "force_due",
        "register",
        "registering",
        "history",
        "why",
    ):
        assert name in api.__all__
        assert f"api.{name}(" in page
