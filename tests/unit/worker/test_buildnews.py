"""How far the code of live apps is, as the heartbeat says it: serving, on its way, or refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.described import sample

from relayctl.core.facts import BuildRefused, Fact
from relayctl.core.release import tree_digest
from relayctl.runners.deployed import Settled
from relayctl.worker.buildnews import BuildNews
from relayctl.worker.snapshot import LiveApp, Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass
class Builds:
    """What an executor has to say of builds."""

    serving: Mapping[str, str] = field(default_factory=dict)
    settled: list[Settled] = field(default_factory=list)

    def take_settled(self) -> list[Settled]:
        settled, self.settled = self.settled, []
        return settled


def snapshot(seq: int = 1, **revisions: str) -> Snapshot:
    live = {
        name: LiveApp(app=sample(name=name), revision=revision, template="t", directory=Path("/nowhere"))
        for name, revision in revisions.items()
    }
    return Snapshot(live, seq)


def test_code_is_pending_until_it_serves_and_refused_while_it_is_live() -> None:
    builds, facts, live = Builds(), list[Fact](), snapshot(crm="r2", billing="b1")
    executor: Any = builds
    news = BuildNews(executor, lambda: live, facts.append)
    builds.serving = {"crm": "r1", "billing": "b1"}
    news.look()
    assert (news.pending(live), news.refused(live)) == (("crm",), {})
    builds.settled = [Settled("crm", "r2", False, "no module named x")]
    news.look()
    assert (news.pending(live), news.refused(live)) == ((), {"crm": "no module named x"})
    assert facts == [BuildRefused(app="crm", revision="r2", reason="no module named x")]
    # Back to what serves still: nothing of it settles anew, and nothing is wrong with it.
    live = snapshot(2, crm="r1", billing="b1")
    news.look()
    assert (news.pending(live), news.refused(live)) == ((), {})


def test_the_digest_is_that_of_the_revisions_of_a_release() -> None:
    executor: Any = Builds()
    news = BuildNews(executor, Snapshot, list[Fact]().append)
    for live in (snapshot(1, crm="r1"), snapshot(2, crm="r2", billing="b1"), Snapshot({}, 3)):
        assert news.digest(live) == tree_digest({name: item.revision for name, item in live.live.items()})
