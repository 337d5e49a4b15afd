"""Laws of jitter and rank: spread evenly, agreed without talking, and moved little by a departure."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from relayctl.core.timing import backoff_after, jitter_of, rank_of

MS = timedelta(milliseconds=1)
NAMES = st.text(alphabet="abcdefgh0123456789-", min_size=1, max_size=12)
FLEETS = st.lists(NAMES, min_size=1, max_size=9, unique=True)

fast = settings(max_examples=100, deadline=None, print_blob=True)


@fast
@given(text=st.text(max_size=60), spread_ms=st.integers(min_value=1, max_value=86_400_000))
def test_jitter_lies_in_its_spread_and_is_the_same_everywhere(text: str, spread_ms: int) -> None:
    offset = jitter_of(text, spread_ms * MS)
    assert timedelta(0) <= offset < spread_ms * MS
    assert offset % MS == timedelta(0)
    assert jitter_of(text, spread_ms * MS) == offset


def test_jitter_spreads_a_herd() -> None:
    offsets = [jitter_of(f"schedule:shop:s{n}:2026-09-29T03:00:00Z", timedelta(seconds=10)) for n in range(1000)]
    per_second = [sum(1 for offset in offsets if offset // timedelta(seconds=1) == second) for second in range(10)]
    assert min(per_second) > 60
    assert max(per_second) < 140


@fast
@given(fleet=FLEETS, subject=NAMES, data=st.data())
def test_ranks_are_a_permutation_whatever_the_order(fleet: list[str], subject: str, data: st.DataObject) -> None:
    ranks = {worker: rank_of(worker, fleet, subject) for worker in fleet}
    assert sorted(ranks.values()) == list(range(1, len(fleet) + 1))
    shuffled = data.draw(st.permutations(fleet))
    assert {worker: rank_of(worker, shuffled, subject) for worker in fleet} == ranks


@fast
@given(fleet=FLEETS, subject=NAMES, gone=st.integers(min_value=0, max_value=8))
def test_a_departure_moves_only_those_behind_it(fleet: list[str], subject: str, gone: int) -> None:
    leaver = fleet[gone % len(fleet)]
    left = [worker for worker in fleet if worker != leaver]
    place = rank_of(leaver, fleet, subject)
    for worker in left:
        before = rank_of(worker, fleet, subject)
        assert rank_of(worker, left, subject) == (before if before < place else before - 1)


def test_subjects_are_shared_out_evenly() -> None:
    fleet = ["w1", "w2", "w3", "w4"]
    first = [worker for n in range(2000) for worker in fleet if rank_of(worker, fleet, f"shop/s{n}") == 1]
    assert len(first) == 2000
    assert all(400 < first.count(worker) < 600 for worker in fleet)


@fast
@given(
    waits=st.lists(st.integers(min_value=0, max_value=10**6), min_size=1, max_size=6),
    attempt=st.integers(min_value=1, max_value=20),
)
def test_a_wait_is_its_own_or_the_last(waits: list[int], attempt: int) -> None:
    found = backoff_after(attempt, [wait * MS for wait in waits])
    assert found == (waits[attempt - 1] if attempt <= len(waits) else waits[-1]) * MS
