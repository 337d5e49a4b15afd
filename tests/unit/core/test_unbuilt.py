"""An app that waits for its environment, in a worker's record and in what keeps a fleet from a release."""

from __future__ import annotations

import json

from support.workbench import record

from relayctl.core.release import lacking
from relayctl.core.unbuilt import UnbuiltApp
from relayctl.store.fleet import Holdings, WorkerRecord
from relayctl.store.releases import held_of

FAILED = UnbuiltApp(app="crm", file="requirements.txt", reason="no such thing", lines=("a", "b"), serves="7c1e9d42")


def test_a_record_carries_it_and_a_newer_one_may_carry_more() -> None:
    written = record("w1", unbuilt=(FAILED, UnbuiltApp(app="site", file="uv.lock")))
    assert WorkerRecord.from_json(written.to_json()) == written
    document = json.loads(written.to_json())
    document["unbuilt"][0]["colour"] = "red"
    assert WorkerRecord.from_json(json.dumps(document)) == written
    del document["unbuilt"]
    older = WorkerRecord.from_json(json.dumps(document))
    assert older is not None
    assert older.unbuilt == ()


def test_a_worker_that_cannot_build_says_so_where_a_release_waits_for_it() -> None:
    held = held_of(record("w1", unbuilt=(FAILED,)), Holdings(apps={"crm": "7c1e9d42aa"}))
    assert lacking(held, {"crm": "8"}) == (
        "app crm: building requirements.txt failed; runs its build of 7c1e9d42, admits nothing new of crm",
    )


def test_what_does_not_run_at_all_is_said_so() -> None:
    assert UnbuiltApp(app="a", file="uv.lock").words == "app a: uv.lock is being built; does not run yet"
