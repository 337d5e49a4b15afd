"""The listener that writes facts to a stream, one line each. It never raises and never blocks on a closed reader."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from typing import Protocol, TextIO

from relayctl.core.facts import Fact, Level
from relayctl.render import facts as wording

_WEIGHT = {Level.DEBUG: 0, Level.INFO: 1, Level.WARNING: 2, Level.ERROR: 3}


class _Now(Protocol):
    def now(self) -> datetime: ...


class LogListener:
    """Writes each fact of at least `level`; `form` is `text` or `json`. Safe to call from any thread."""

    def __init__(self, stream: TextIO, form: str, clock: _Now, *, level: Level = Level.INFO) -> None:
        self._stream = stream
        self._line: Callable[[Fact, datetime], str] = wording.as_json if form == "json" else wording.text
        self._clock = clock
        self._least = _WEIGHT[level]
        self._lock = threading.Lock()
        self._is_open = True

    def emit(self, fact: Fact) -> None:
        """Write one line. A reader that went away ends the log, not the worker."""
        if not self._is_open or _WEIGHT[fact.level] < self._least:
            return
        line = self._line(fact, self._clock.now()) + "\n"
        with self._lock:
            try:
                self._stream.write(line)
                self._stream.flush()
            except UnicodeEncodeError:
                self._write_ascii(line)
            except BrokenPipeError:
                self._is_open = False
            except (OSError, ValueError):
                # A full disk may get better; a closed stream answers ValueError and costs little to ask again.
                pass

    def _write_ascii(self, line: str) -> None:
        try:
            self._stream.write(line.encode("ascii", "backslashreplace").decode())
            self._stream.flush()
        except (OSError, ValueError):
            self._is_open = False
