"""An operator's hour, with the installed program: stand a schedule still, run it by hand, mend what was given up."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.broker import await_fact
from support.console import Answer, relayctl
from support.fleet import Fleet

if TYPE_CHECKING:
    from pathlib import Path

    import redis
    from support.broker import PrivateBroker


def test_pause_trigger_resume_and_a_dead_letter(
    broker: PrivateBroker, redis_client: redis.Redis, short_dir: Path
) -> None:
    fleet = Fleet(short_dir, broker.target, broker.url)

    def ask(*words: str) -> Answer:
        return relayctl(*words, "--apps", "apps", "--redis", fleet.url, cwd=fleet.root)

    try:
        folder = fleet.tree.app("app", "- {name: tick, handler: jobs.fail, every: 1s, retries: 0}")
        fleet.start()
        await_fact(fleet.dead_letters, "nothing was given up", 20)
        paused = ask("pause", "app/tick", "--reason", "jobs.fail is broken")
        assert (paused.code, paused.err) == (0, "")
        assert "relayctl resume app/tick ends it" in paused.out
        assert "jobs.fail is broken" in ask("status").out
        fleet.await_idle()
        letter = json.loads(ask("dlq", "ls", "--format", "json").out)["letters"][0]
        failed = ask("trigger", "app/tick", "--wait")
        assert (failed.code, "failed" in failed.out) == (3, True)

        code = (folder / "jobs.py").read_text()
        (folder / "jobs.py").write_text(code.replace("raise SystemExit(3)", "pass"))
        await_fact(lambda: ask("dlq", "replay", letter["id"], "--wait").code == 0, "the repair does not arrive", 30)
        assert letter["id"] not in ask("dlq", "ls").out
        assert ask("dlq", "show", letter["id"]).code == 2

        resumed = ask("resume", "app/tick")
        assert (resumed.code, "closed as paused" in resumed.out) == (0, True)
        fleet.await_instant(fleet.now() + 1)
    finally:
        fleet.close()
