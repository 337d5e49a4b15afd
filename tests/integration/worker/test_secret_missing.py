"""A live worker without the value of a secret: the fleet's state says so before a run fails, and until it has one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from support.broker import await_fact
from support.console import Answer
from support.schema import conforms

if TYPE_CHECKING:
    from support.fleet import Fleet

MISSING = "the secret shop-key has no value here"


def test_status_names_the_secret_and_the_way_out(fleet: Fleet, ask: Callable[..., Answer]) -> None:
    fleet.tree.app("shop", '- {name: tick, handler: jobs.run, cron: "0 3 29 2 *"}', head="secrets: {KEY: shop-key}")
    values = fleet.root / "secrets"
    values.mkdir()
    fleet.start("--secrets-dir", str(values)).await_told("worker-started")

    def health() -> str:
        document = json.loads(ask("status", "--format", "json").out)
        conforms(document, "status")
        [schedule] = document["schedules"]
        return str(schedule["health"])

    await_fact(lambda: health() == "Failing", "the missing secret is not told")
    said = " ".join(ask("status").out.split())
    assert "secret runs of shop fail on" in said
    assert f"{MISSING}; set it with: relayctl secret set shop-key, or add the file shop-key to {values}" in said
    (values / "shop-key").write_text("s3cr3t-of-the-test")
    await_fact(lambda: health() == "Healthy", "the value is not seen")
    assert MISSING not in ask("status").out
