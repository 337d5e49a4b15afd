"""`validate --watch`: looks again at the apps that were touched, and shows everything that is known then."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from relayctl.cli.desk import Desk
from relayctl.cli.exits import Code, Ended
from relayctl.cli.lint import Linted, Task, is_tree, lint
from relayctl.errors import RelayError
from relayctl.host.clock import SystemClock
from relayctl.sources.watch import DirectoryWatch

_CLEAR = "\x1b[2J\x1b[3J\x1b[H"
_DEBOUNCE_MS = 50

_Hint = tuple[Path, frozenset[str] | None]


def keep_looking(desk: Desk, task: Task, show: Callable[[Linted, float], None]) -> NoReturn:
    """Look and show until the user has enough (Ctrl-C, code 130). What cannot be looked at now may be later."""
    hints: queue.SimpleQueue[_Hint] = queue.SimpleQueue()
    stop = threading.Event()
    roots = sorted({path if is_tree(path) else _root_of(path) for path in task.paths or [task.default]})
    looks = _Looks(desk, task, show)
    looks.again(None)
    for root in roots:
        threading.Thread(target=_watch(desk, root, hints).run, args=(stop,), daemon=True).start()
    desk.remark(f"watching {', '.join(map(str, roots))}; Ctrl-C ends it")
    try:
        while True:
            looks.again(_gathered(hints))
    except KeyboardInterrupt:
        desk.complain("no longer watching; nothing was changed")
        raise Ended(Code.INTERRUPTED) from None
    finally:
        stop.set()


class _Looks:
    """One look after the other, each with what the last one read."""

    def __init__(self, desk: Desk, task: Task, show: Callable[[Linted, float], None]) -> None:
        self._desk = desk
        self._task = task
        self._show = show
        self._last = Linted()
        self._told: object = None
        self._follows_clock = desk.now().date() == task.now.date()

    def again(self, touched: list[_Hint] | None) -> None:
        """Look at what was touched; the rest is as it was read. Without news nothing is shown again."""
        began = time.perf_counter()
        now = self._desk.now()
        if self._follows_clock and now.date() != self._task.now.date():
            # What was read before reckons from its own day.
            self._task, self._last = replace(self._task, now=now), Linted()
        known = {root: dict(apps) for root, apps in self._last.trees.items()}
        for root, names in touched or []:
            for name in list(known.get(root, {})) if names is None else names:
                known.get(root, {}).pop(name, None)
        is_named = touched is None or any(names is not None for _, names in touched)
        try:
            self._last = lint(self._task, known)
            told: object = (self._last.problems, self._last.files)
        except RelayError as error:
            # An editor may have taken the file away for the moment between two of its steps.
            self._last, told = Linted(), error.message
        if not is_named and told == self._told:
            return
        self._told = told
        if sys.stdout.isatty():
            self._desk.tell(_CLEAR)
        if isinstance(told, str):
            self._desk.complain(told)
        else:
            self._show(self._last, time.perf_counter() - began)


def _gathered(hints: queue.SimpleQueue[_Hint]) -> list[_Hint]:
    """The next hint, and those that came with it."""
    found = [hints.get()]
    while not hints.empty():
        found.append(hints.get())
    return found


def _root_of(path: Path) -> Path:
    """The tree that an app or a template lies in."""
    return path.parent if path.is_dir() else path.parent.parent


def _watch(desk: Desk, root: Path, hints: queue.SimpleQueue[_Hint]) -> DirectoryWatch:
    return DirectoryWatch(
        root,
        debounce_ms=_DEBOUNCE_MS,
        is_polling=False,
        clock=SystemClock(),
        on_hint=lambda names: hints.put((root, names)),
        on_trouble=lambda words: desk.complain(f"warning: {words}"),
    )
