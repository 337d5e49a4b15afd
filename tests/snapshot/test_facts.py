"""golden/facts: one example of every fact as a log line for people and for programs. Their names are interface."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from typing import Any, get_type_hints

from syrupy.assertion import SnapshotAssertion

from relayctl.core.facts import AppBroken, Draining, Fact, RemovalHeld, WorkerStarted, all_facts
from relayctl.render import facts as render

AT = datetime(2026, 9, 29, 10, 15, 2, tzinfo=UTC)
# What reads better than the value that its type alone would give.
NAMED: dict[str, Any] = {
    "app": "crm", "schedule": "sync-contacts", "handler": "jobs.sync.handler", "message": "1790676902000-0",
    "entry": "1790676902000-0", "worker": "worker-1", "revision": "7c1e9d42", "place": "template.yaml:22",
    "code": "RLY101", "problem": 'unknown key "retires"', "problems": 1, "others": 13, "verdict": "missed",
    "reason": "the broker was away", "source": "apps", "service": "web", "state": "offline", "label": "crm/jobs.sync.handler@1-0",
    "line": "synchronised 12 contacts", "stream": "stdout", "look": "relayctl logs crm/sync-contacts", "by": "alice",
    "action": "pause", "target": "crm/sync-contacts", "broker": "unix socket", "namespace": "relay", "version": "0.1.0",
    "flavour": "valkey", "limits": ("cpus", "pids"), "marks": ("caught_up",), "unread": ("crm",), "loop": "scheduler", "port": 3000,
    "lines": ("error: no such package",),
}  # fmt: skip
TYPED: dict[Any, Any] = {
    str: "text", int: 2, bool: True, datetime: AT, timedelta: timedelta(seconds=8.2), timedelta | None: timedelta(minutes=1),
    str | None: "text", datetime | None: AT,
}  # fmt: skip


def _example(kind: type[Fact]) -> Fact:
    hints = get_type_hints(kind)
    return kind(**{item.name: NAMED.get(item.name, TYPED.get(hints[item.name])) for item in dataclasses.fields(kind)})


def test_text(golden: SnapshotAssertion) -> None:
    assert "".join(f"{render.text(_example(kind), AT)}\n" for kind in all_facts()) == golden


def test_json(golden: SnapshotAssertion) -> None:
    lines = [render.as_json(_example(kind), AT) for kind in all_facts()]
    assert all(json.loads(line)["event"] for line in lines)
    assert "".join(f"{line}\n" for line in lines) == golden


def test_every_fact_has_a_slug_of_its_own_and_its_words() -> None:
    slugs = [kind.event for kind in all_facts()]
    assert len(set(slugs)) == len(slugs)
    assert set(render.WORDING) == set(slugs)


def test_what_is_absent_is_left_out_and_said_otherwise() -> None:
    from relayctl.core.facts import AppLoaded, Published, RunFailed

    loaded = AppLoaded(app="crm", revision="7c1e9d42", added=0, changed=1, removed=0, was_broken=True)
    assert render.text(loaded, AT) == "10:15:02Z reconcile crm: ok again, 1 schedule swapped, revision 7c1e9d42"
    broken = AppBroken(
        app="crm",
        place="template.yaml:22",
        code="RLY101",
        problem='unknown key "retires"',
        problems=3,
        others=13,
        has_last_good=True,
    )
    assert render.text(broken, AT) == (
        '10:15:02Z error: reconcile crm: template.yaml:22 RLY101 unknown key "retires" (and 2 more); '
        "keeping the last good crm, 13 apps unaffected; relayctl validate shows the way out"
    )
    published = Published(app="a", schedule="s", scheduled_at=AT, entry="1-0", late=timedelta(milliseconds=3))
    assert render.text(published, AT) == "10:15:02Z a/s@2026-09-29T10:15:02Z published as 1-0"
    failed = RunFailed(
        app="a",
        handler="h.f",
        message="1-0",
        attempt=5,
        attempts=5,
        reason="exit 1",
        took=timedelta(seconds=2),
        look="relayctl logs a/h.f",
    )
    assert render.text(failed, AT).endswith("exit 1; no attempt is left, kept as a dead letter; relayctl logs a/h.f")
    assert "retry_in_s" not in render.as_json(failed, AT)


def test_an_escape_sequence_in_a_field_is_made_harmless() -> None:
    from relayctl.core.facts import OutputLine

    assert "\x1b" not in render.text(OutputLine(label="a/h@1", stream="stdout", line="\x1b[2J"), AT)


def test_counts_of_one_and_of_none_read_as_words() -> None:
    started = WorkerStarted(
        worker="w", pid=1, version="0.1.0", broker="unix:///b.sock", namespace="relay", apps=1, schedules=1
    )
    assert ": 1 app, 1 schedule; broker" in render.text(started, AT)
    held = RemovalHeld(removed=1, total=1, revision="7c1e9d42")
    assert "removal of 1 of 1 schedule held" in render.text(held, AT)
    alone = AppBroken(app="a", place="t:1", code="RLY101", problem="p", problems=1, others=0, has_last_good=False)
    assert render.text(alone, AT).endswith("p; a does not run; relayctl validate shows the way out")


def test_a_drain_that_waits_says_how_to_end_the_wait() -> None:
    def drain(reason: str, running: int) -> str:
        return render.text(Draining(reason=reason, running=running, limit=timedelta(seconds=25)), AT)

    assert drain("SIGINT", 2).endswith("2 running, at most 25 s; a second one does not wait")
    assert drain("SIGINT", 0).endswith("at most 25 s")
    assert drain("SIGQUIT", 2).endswith("at most 25 s")
