"""The same no-op jobs for dramatiq and rq, and their producer. It runs under an interpreter that has the two.

As a program: `noop.py fill|pace KIND COUNT RATE FILE`. The broker's URL comes in BENCH_URL.
"""

from __future__ import annotations

import os
import sys
import time

import dramatiq
import redis
import rq
from dramatiq.brokers.redis import RedisBroker

CLIENT = redis.Redis.from_url(os.environ["BENCH_URL"])
BROKER = RedisBroker(client=CLIENT)
dramatiq.set_broker(BROKER)


def noop() -> None:
    pass


def stamp(at: float, file: str) -> None:
    late = time.time() - at
    with open(file, "a") as out:
        out.write(f"{late}\n")


ACTORS = {"noop": dramatiq.actor(noop, actor_name="noop"), "stamp": dramatiq.actor(stamp, actor_name="stamp")}


def send(kind: str, *args: object) -> None:
    if kind == "dramatiq":
        ACTORS["stamp" if args else "noop"].send(*args)
    else:
        # By name: this file is the main program here and a module in the worker.
        rq.Queue("bench", connection=CLIENT).enqueue(f"noop.{'stamp' if args else 'noop'}", *args, result_ttl=0)


def main(verb: str, kind: str, count: str, rate: str, file: str) -> None:
    start = time.monotonic()
    for number in range(int(count)):
        if verb == "pace":
            time.sleep(max(0.0, start + number / float(rate) - time.monotonic()))
            send(kind, time.time(), file)
        else:
            send(kind)


if __name__ == "__main__":
    main(*sys.argv[1:])
