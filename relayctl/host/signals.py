"""Signals as requests, taken in order by the main thread; their handlers only note them."""

from __future__ import annotations

import os
import queue
import signal
from contextlib import suppress
from types import FrameType
from typing import Any

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)


class Signals:
    """What the process was asked to do. A second stop, or SIGQUIT, means: do not wait.

    SIGHUP from a terminal that was closed is a stop; any other one is a request of its own. A SIGHUP that was ignored
    when the process began (`nohup`) stays ignored.
    """

    def __init__(self) -> None:
        # A SimpleQueue may be filled from a signal handler at any moment.
        self._asked: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._previous: dict[int, Any] = {}
        self._had_terminal = has_terminal()

    def listen(self) -> None:
        """Take over the signals; called in the main thread."""
        for number in (*STOPPING, signal.SIGHUP):
            if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue
            self._previous[number] = signal.signal(number, self._note)

    def restore(self) -> None:
        """Give the signals back."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def next(self, timeout_s: float) -> signal.Signals | None:
        """The next signal, or None when none came in time."""
        with suppress(queue.Empty):
            return signal.Signals(self._asked.get(timeout=timeout_s))
        return None

    def is_asked(self) -> bool:
        """Whether something was asked that nobody has taken yet."""
        return not self._asked.empty()

    def is_stop(self, asked: signal.Signals) -> bool:
        """Whether it asks the process to end."""
        return asked in STOPPING or (asked is signal.SIGHUP and self._had_terminal and not has_terminal())

    def hurry(self) -> bool:
        """Whether another stop has come: asked while draining."""
        with suppress(queue.Empty):
            while True:
                if self._asked.get_nowait() in STOPPING:
                    return True
        return False

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._asked.put(number)


def has_terminal() -> bool:
    """Whether this process has a controlling terminal that is still there."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
