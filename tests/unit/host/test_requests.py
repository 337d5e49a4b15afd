"""The queue behind the control socket: whatever happens, what was accepted has exactly one result."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from relayctl.errors import RequestRejected
from relayctl.host.requests import Job, RequestQueue, Result


def _results(job: Job) -> list[Result]:
    return [event for event in job.events(5) if isinstance(event, Result)]


def test_every_accepted_request_has_one_result_whenever_the_queue_is_closed() -> None:
    for closing_after in (0, 1, 7, 40, 150):
        queue, done, lock = RequestQueue(capacity=4), [0], threading.Lock()
        reached = threading.Event()

        def work(
            _request: Mapping[str, Any],
            _cancel: threading.Event,
            done: list[int] = done,
            limit: int = closing_after,
            reached: threading.Event = reached,
        ) -> dict[str, Any]:
            done[0] += 1
            if done[0] >= limit:
                reached.set()
            if done[0] % 3 == 0:
                raise ValueError
            return {}

        accepted: list[Job] = []
        refusals: list[str] = []

        def submit(
            queue: RequestQueue = queue,
            work: Any = work,
            accepted: list[Job] = accepted,
            refusals: list[str] = refusals,
            lock: threading.Lock = lock,
        ) -> None:
            while True:
                try:
                    job = queue.submit(work, {})
                except RequestRejected as refusal:
                    with lock:
                        refusals.append(refusal.message)
                    if refusal.message == "closing":
                        return
                else:
                    with lock:
                        accepted.append(job)

        queue.start()
        threads = [threading.Thread(target=submit) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert closing_after == 0 or reached.wait(10)
        queue.stop(within_s=5)
        for thread in threads:
            thread.join(10)
        found = [_results(job) for job in accepted]
        assert all(len(results) == 1 for results in found)
        assert sum(results[0].reason != "cancelled" for results in found) == done[0]
        assert set(refusals) <= {"full", "closing"}


def test_the_first_of_two_results_counts() -> None:
    job = Job(lambda _request, _cancel: {"n": 1}, {})
    job.finish(Result(is_ok=False, reason="cancelled"))
    job.run(threading.Event())
    assert [result.reason for result in _results(job)] == ["cancelled"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_executor_that_dies_strands_nobody() -> None:
    queue = RequestQueue()

    def exits(_request: Mapping[str, Any], _cancel: threading.Event) -> dict[str, Any]:
        raise SystemExit(3)

    first, second = queue.submit(exits, {}), queue.submit(exits, {})
    queue.start()
    assert [result.reason for result in _results(first)] == ["internal error: SystemExit"]
    assert [result.reason for result in _results(second)] == ["cancelled"]
    with pytest.raises(RequestRejected, match="closing"):
        queue.submit(exits, {})
    queue.stop(within_s=5)
