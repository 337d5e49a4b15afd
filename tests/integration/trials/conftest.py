"""Trials on the test process's server; each has a namespace to itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pytest
from support.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from support.broker import PrivateBroker


class MakeTrial(Protocol):
    def __call__(self, now: datetime, **options: Any) -> Trial: ...


@pytest.fixture
def trial_at(broker: PrivateBroker) -> Iterator[MakeTrial]:
    """Makes trials that begin at an instant; their workers stop in the end."""
    made: list[Trial] = []

    def make(now: datetime, **options: Any) -> Trial:
        trial = Trial(now, broker.target, **options)
        trial.rig.__enter__()
        made.append(trial)
        return trial

    yield make
    for trial in made:
        trial.rig.close()
