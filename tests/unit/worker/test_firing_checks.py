"""Firings are judged by the definition of their number, also after the registry was lost and numbers anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.storedesk import APP, SCHEDULE, T0, T0_MS, Desk, occurrence
from support.workbench import cron

from relayctl.core.definition import Spec
from relayctl.worker.consumer import FiringChecks

if TYPE_CHECKING:
    import redis


def begin(desk: Desk, expression: str) -> None:
    spec = Spec.of(cron(expression))
    desk.register(spec.hash, spec=spec.text, now_ms=T0_MS - 60_000)


def test_a_number_that_was_given_anew_is_read_again_before_a_firing_is_refused(redis_client: redis.Redis) -> None:
    desk = Desk(redis_client)
    check = FiringChecks(desk.definitions)
    begin(desk, "0 3 * * *")
    assert "does not fire" in (check(occurrence(T0)) or "")
    redis_client.flushall()
    begin(desk, "0 8 * * *")
    assert check(occurrence(T0)) is None, "it fires at 08:00 now"
    assert "does not fire" in (check(occurrence(T0 - 5 * 3600)) or "")


def test_what_is_known_is_asked_for_once(redis_client: redis.Redis) -> None:
    desk = Desk(redis_client)
    check = FiringChecks(desk.definitions)
    begin(desk, "0 8 * * *")
    assert check(occurrence(T0)) is None
    redis_client.delete(desk.keys.schedule(APP, SCHEDULE))
    assert check(occurrence(T0)) is None
    assert check(occurrence(T0 + 60)) is None, "nothing is known of it any more, so nobody can say that it is none"
