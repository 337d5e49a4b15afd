"""For each deliberate break a short run that provokes it: with the break the judge must find it, without it nothing."""

from __future__ import annotations

from dataclasses import dataclass

from support.nemesis.apps import Wanted
from support.nemesis.plan import Deed
from support.nemesis.stage import Play

SHORT_LATENESS_S = 8.0
"""Stands for the minute after which a gap goes by the policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provocation:
    """A play, and the rule whose finding gives the break away."""

    rule: str
    play: Play


def _schedules(*every: int, handler: str = "run") -> tuple[Wanted, ...]:
    return tuple(
        Wanted(app="a0", schedule=f"s{place}", every=each, handler=handler) for place, each in enumerate(every)
    )


def _outage(at_s: float, lasts_s: float) -> Deed:
    return Deed(at_s=at_s, kind="kill-broker", lasts_s=lasts_s)


PROVOCATIONS = {
    # A handler takes its time, and a look in between finds its entry gone.
    "acknowledge-early": Provocation(
        rule="acknowledged",
        play=Play(wanted=_schedules(2, 3, handler="slow"), deeds=(), length_s=6, workers=1, takes_s=3),
    ),
    # What was tried when the outage began is in the outbox and nowhere else: afterwards only the latest is caught up.
    "skip-the-outbox": Provocation(
        rule="outbox",
        play=Play(
            wanted=_schedules(1, 2, 3),
            deeds=(_outage(4, 13),),
            length_s=18,
            workers=1,
            lateness_s=SHORT_LATENESS_S,
            emits=False,
        ),
    ),
    # One worker stands still until its runs are another one's, and then tells how they ended with it.
    "drop-the-token-check": Provocation(
        rule="attempts",
        play=Play(
            wanted=_schedules(2, 2, 3, handler="slow"),
            deeds=(Deed(at_s=6, kind="stop-worker", which=0, lasts_s=10.5),),
            length_s=17,
            workers=2,
            takes_s=6,
            emits=False,
        ),
    ),
    # Every two seconds becomes every second.
    "publish-before-registering": Provocation(
        rule="unexpected",
        play=Play(
            wanted=_schedules(2),
            deeds=(Deed(at_s=3, kind="edit", which=5),),
            length_s=9,
            workers=1,
            emits=False,
        ),
    ),
    # One worker is cut off, and another one goes on for longer than the first one tries, and dies. When the first one is
    # back and alone, the gap that it leaves out begins with what was published.
    "close-without-comparing": Provocation(
        rule="changed",
        play=Play(
            wanted=_schedules(1, 1, 1, 2, 2, 2, 3, 3),
            deeds=(
                Deed(at_s=2, kind="cut", which=1, lasts_s=21),
                Deed(at_s=11, kind="kill-worker", which=0, lasts_s=14),
            ),
            length_s=25,
            workers=2,
            lateness_s=SHORT_LATENESS_S,
            emits=False,
        ),
    ),
    # A handler takes longer than a lease lasts.
    "forget-a-lease": Provocation(
        rule="overlap",
        play=Play(wanted=_schedules(4, 5, handler="slow"), deeds=(), length_s=7, workers=2, takes_s=11, emits=False),
    ),
    # The answers of the road are lost, so what was published is read only after an edit.
    "judge-by-today": Provocation(
        rule="verdict",
        play=Play(
            wanted=_schedules(2, 1),
            deeds=(
                Deed(at_s=3, kind="deafen", which=0, lasts_s=1),
                Deed(at_s=5, kind="edit", which=4),
                Deed(at_s=5.2, kind="edit", which=5),
            ),
            length_s=14,
            workers=1,
            emits=False,
        ),
    ),
    # Nothing else has to happen.
    "raise-the-floor-too-far": Provocation(
        rule="unaccounted",
        play=Play(wanted=_schedules(1, 2), deeds=(), length_s=12, workers=1, emits=False),
    ),
}
