"""Where a job stands after its firings were sent: how far it came, and what stopped it."""

from __future__ import annotations

from datetime import timedelta

from support.workbench import Workbench, every, generation

from relayctl.core.due import Due, Timeline
from relayctl.core.model import CatchUp
from relayctl.store.definitions import Mode, Proposal
from relayctl.worker.agenda import Job
from relayctl.worker.passedover import PassedOverFirings
from relayctl.worker.publisher import Publisher, Standing


def test_a_job_stands_at_the_last_instant_that_was_taken(bench: Workbench) -> None:
    now = bench.now()
    known = generation(every(1), now - 10)
    unknown = generation(every(1), now - 10, gen=9)
    proposal = Proposal(app="app", schedule="tick", mode=Mode.START, hash=known.hash, spec=known.spec)
    bench.definitions.register([proposal], (now - 10) * 1000)
    job = Job(
        app="app",
        schedule="tick",
        handler="jobs.run",
        jitter=timedelta(0),
        catch_up=CatchUp.LATEST,
        timeline=Timeline([known]),
        cursor=now - 6,
    )
    passed_over = PassedOverFirings(bench.closings, bench.facts.append)
    publisher = Publisher(bench.stream, "w1", bench.facts.append, passed_over, bench.rescue.recovery)

    def publish(*firings: tuple[int, object]) -> tuple[Standing, int]:
        due = Due(firings=tuple(firings), cursor=now + 99)  # type: ignore[arg-type]
        [outcome] = publisher.publish([(job, due)], now * 1000)
        return outcome.standing, outcome.cursor - now

    assert publish((now - 5, known), (now - 4, unknown), (now - 3, known)) == (Standing.SUPERSEDED, -5)
    assert publish((now - 4, known), (now + 60, known)) == (Standing.EARLY, -4)
    # The same token hears that it had won; what it sent after the refused one is not sent twice.
    assert publish((now - 4, known), (now - 3, known)) == (Standing.DONE, 99)
    assert bench.published() == [now - 5, now - 4, now - 3]
    assert len(bench.envelopes()) == 3
