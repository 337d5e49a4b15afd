"""Times the cron evaluator against croniter with reused objects: next, previous, is it a firing, parse, first next.

Run it with the project's interpreter: `python bench/cron.py`. It prints medians in microseconds and ratios.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from croniter import croniter

from relayctl.core.cron import Cron
from relayctl.core.zones import zone_named

PAIRS = (
    ("* * * * *", "UTC"),
    ("*/15 9-17 * * 1-5", "America/New_York"),
    ("0 3 * * *", "Europe/Rome"),
    ("30 2 * * *", "America/New_York"),
    ("0 0 1 * *", "Asia/Kolkata"),
    ("5 4 * * 0", "Australia/Lord_Howe"),
    ("0 0 13 * 5", "Europe/London"),
    ("@hourly", "America/St_Johns"),
    ("0 12 1 1 *", "UTC"),
    ("*/7 */5 1-7 * *", "Africa/Casablanca"),
)
STARTS = tuple(1_767_225_600 + 2_713_337 * step for step in range(12))
ROUNDS = 7


def per_call(calls: Iterable[Callable[[], object]]) -> float:
    """The median over rounds of the mean time of a call, in microseconds."""
    todo = list(calls)
    means = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        for call in todo:
            call()
        means.append((time.perf_counter() - begun) / len(todo) * 1e6)
    return statistics.median(means)


def compare(
    name: str, ours: Callable[[Cron, datetime], object], theirs: Callable[[croniter, datetime], object]
) -> None:
    """One line: the medians over all pairs, and the median of the ratios."""
    mine, other = [], []
    for expression, zone in PAIRS:
        cron, info = Cron.parse(expression, zone), zone_named(zone).info
        starts = [datetime.fromtimestamp(start, UTC) for start in STARTS]
        locals_ = [start.astimezone(info) for start in starts]
        reused = croniter(expression, locals_[0])
        mine.append(per_call([lambda c=cron, s=start: ours(c, s) for start in starts * 20]))
        other.append(per_call([lambda c=reused, s=start: theirs(c, s) for start in locals_]))
    ratios = [theirs_us / ours_us for ours_us, theirs_us in zip(mine, other, strict=True)]
    print(
        f"{name:<12} {statistics.median(mine):9.2f} us {statistics.median(other):9.1f} us "
        f"{statistics.median(ratios):6.1f}x  (least {min(ratios):.1f}x)"
    )


def load(count: int) -> None:
    """Parse many different expressions and ask each for its first firing."""
    texts = [
        f"{index % 60} {index // 60 % 24} {('*', '1-15', '*/2')[index // 1440 % 3]} * {index // 4320 % 7},{index % 5}"
        for index in range(count)
    ]
    zone_named("Europe/Rome")
    begun = time.perf_counter()
    parsed = [Cron.parse(text, "Europe/Rome") for text in texts]
    read = time.perf_counter()
    for cron in parsed:
        cron.next_after_s(STARTS[0])
    done = time.perf_counter()
    begun_theirs = time.perf_counter()
    for text in texts[:300]:
        croniter.expand(text)
    theirs = (time.perf_counter() - begun_theirs) / 300 * 1e6
    print(f"parse        {(read - begun) / count * 1e6:9.2f} us {theirs:9.1f} us (expand)")
    print(f"first next   {(done - read) / count * 1e6:9.2f} us")
    print(f"{count:,} expressions, {len(set(texts)):,} of them different, parsed and asked: {done - begun:.2f} s")


def main() -> None:
    """Print the table."""
    print(f"{'':<12} {'relayctl':>12} {'croniter':>12}  ratio")
    compare("next", lambda c, s: c.next_after(s), lambda c, s: c.get_next(datetime, start_time=s))
    compare("previous", lambda c, s: c.latest_at_or_before(s), lambda c, s: c.get_prev(datetime, start_time=s))
    compare("is firing", lambda c, s: c.is_firing(s), lambda c, s: croniter.match(" ".join(c.expressions), s))
    load(100_000)


if __name__ == "__main__":
    main()
