"""A process that enters an `Exclusive` as it is told, line by line, and stays in each run until it is told how to end.

Run by path, with the directory and the capacity. It answers `began <number>`, and then `<outcome> <reruns> <fails>`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from relayctl.host.clock import SystemClock
from relayctl.host.cycle.exclusive import Exclusive


def main(capacity: int) -> None:
    is_open = True

    def gate() -> bool:
        return is_open

    def job(number: int) -> None:
        nonlocal is_open
        say(f"began {number}")
        for word in sys.stdin:
            if word.strip() == "gate":
                is_open = not is_open
                say("gate")
            elif word.strip() == "fail":
                raise OSError("as it was told")
            else:
                return

    for line in sys.stdin:
        verb, *place = line.split(" ", 1)
        if verb.strip() == "gate":
            is_open = not is_open
            say("gate")
            continue
        exclusive = Exclusive(Path(place[0].strip()), SystemClock(), command=verb, capacity=capacity, gate=gate)
        ending = exclusive.run(job) if verb == "demand" else exclusive.run_or_skip(job)
        say(f"{ending.outcome} {ending.reruns} {ending.error is not None} {ending.is_deferred}")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
