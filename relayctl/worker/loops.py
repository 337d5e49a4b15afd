"""The threads of a worker: start each loop, end some of them in order, and say which of them still live."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class _Loop:
    name: str
    wake: Callable[[], None]
    stop: threading.Event
    thread: threading.Thread


class Loops:
    """The loops that run, by name. Not thread-safe beyond `alive` and `dead`: one thread starts and ends loops."""

    def __init__(self) -> None:
        self._loops: list[_Loop] = []

    def start(self, name: str, body: Callable[[threading.Event], None], wake: Callable[[], None]) -> None:
        """Run `body` in a thread of its own until the event it is given is set; `wake` ends its waits early."""
        stop = threading.Event()
        loop = _Loop(name=name, wake=wake, stop=stop, thread=threading.Thread(target=body, args=(stop,), name=name))
        self._loops.append(loop)
        loop.thread.start()

    def end(self, *names: str) -> None:
        """Ask these loops to end, all at once, and wait until they have. Names that do not run are passed over."""
        ending = [loop for loop in self._loops if loop.name in names]
        for loop in ending:
            loop.stop.set()
            loop.wake()
        for loop in ending:
            loop.thread.join()
        self._loops = [loop for loop in self._loops if loop not in ending]

    def alive(self) -> dict[str, bool]:
        """Whether each loop lives; one that was asked to end counts as alive until it is forgotten."""
        return {loop.name: loop.thread.is_alive() or loop.stop.is_set() for loop in list(self._loops)}

    def dead(self) -> str | None:
        """The name of a loop that has ended although nobody asked it to, or None."""
        return next((name for name, lives in self.alive().items() if not lives), None)
