"""What workers remember, offered in any order to a registry that goes on meanwhile: an instant keeps one generation."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.storedesk import APP, SCHEDULE, T0_MS, Desk

from relayctl.core.checkpoint import Checkpoint
from relayctl.core.occurrence import epoch_seconds, instant_from_text
from relayctl.store.definitions import Mode

if TYPE_CHECKING:
    import redis

CONTENTS = st.sampled_from(["a", "b", "c"])
EDITS = st.tuples(st.just("edit"), CONTENTS)
OFFERS = st.tuples(st.just("offer"), CONTENTS, st.integers(1, 9), st.integers(0, 40), st.integers(0, 40))
FIRINGS = st.tuples(st.just("fire"), st.integers(0, 30))


def act(desk: Desk, deed: tuple, now_ms: int) -> None:  # type: ignore[type-arg]
    match deed:
        case "edit", content:
            head = desk.definitions.look([(APP, SCHEDULE)]).heads.get((APP, SCHEDULE))
            desk.register(content, mode=Mode.EDIT, held=head.gen if head else 0, now_ms=now_ms)
        case "offer", content, gen, since, floor:
            remembered = Checkpoint(
                app=APP, schedule=SCHEDULE, gen=gen, hash=content, spec=f"spec of {content}",
                from_ms=now_ms - since * 1000, floor=now_ms // 1000 - floor,
            )  # fmt: skip
            desk.definitions.restore([remembered], now_ms)
        case "fire", ago:
            for generation in desk.definitions.generations(APP, SCHEDULE):
                desk.publish(now_ms // 1000 - ago, gen=generation.gen, now_ms=now_ms)


def test_generations_never_overlap_whatever_is_remembered(redis_client: redis.Redis) -> None:
    desk = Desk(redis_client)

    @settings(max_examples=60, deadline=None, database=None, print_blob=True, suppress_health_check=list(HealthCheck))
    @given(deeds=st.lists(st.one_of(EDITS, OFFERS, FIRINGS), min_size=2, max_size=14))
    def intervals_follow_one_another(deeds: list[tuple]) -> None:  # type: ignore[type-arg]
        redis_client.flushall()
        for number, deed in enumerate(deeds):
            act(desk, deed, T0_MS + number * 3700)
        kept = [it for it in desk.definitions.generations(APP, SCHEDULE) if it.to_ms is None or it.from_ms < it.to_ms]
        for before, after in pairwise(kept):
            assert before.to_ms is not None
            assert before.to_ms <= after.from_ms, kept
        gens = {it.gen: it for it in kept}
        for envelope in desk.envelopes():
            at_ms = epoch_seconds(instant_from_text(envelope["scheduled_at"])) * 1000  # type: ignore[arg-type]
            covering = [it.gen for it in kept if it.from_ms <= at_ms and (it.to_ms is None or at_ms < it.to_ms)]
            # A memory of a higher number may have taken over what was published under a lower one.
            assert len(covering) <= 1
            assert envelope["gen"] in gens or covering, envelope

    intervals_follow_one_another()
