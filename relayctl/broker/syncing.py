"""The thread that forces the server's append-only files to the disk, once a second while they grow.

The server itself is told not to: it would answer before it writes while such a sync is under way. Writes nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from relayctl.errors import FileFailure, os_reason

if TYPE_CHECKING:
    from pathlib import Path

EVERY_S = 1.0
_GROWING = "*.incr.aof"
_JOIN_S = 1.0


class Syncer(threading.Thread):
    """Syncs what lies in one directory of append-only files until `stop`."""

    def __init__(
        self,
        folder: Path,
        on_failed: Callable[[FileFailure], None],
        *,
        every_s: float = EVERY_S,
        sync: Callable[[int], None] = os.fsync,
    ) -> None:
        """`on_failed` hears from this thread that the disk refused, once until a sync works again."""
        super().__init__(name="broker-sync", daemon=True)
        self._folder = folder
        self._on_failed = on_failed
        self._every_s = every_s
        self._sync = sync
        self._halt = threading.Event()
        self._open: dict[Path, int] = {}
        self._synced: dict[Path, int] = {}
        self._is_refused = False

    def run(self) -> None:
        try:
            while not self._halt.wait(self._every_s):
                self._look()
        finally:
            self._keep_open(set())

    def stop(self) -> None:
        """End it. A sync that hangs in a sick disk is left to itself."""
        self._halt.set()
        if self.is_alive():
            self.join(_JOIN_S)

    def _look(self) -> None:
        try:
            # A rewrite begins a new file; the server syncs the old one itself when it closes it.
            self._keep_open(set(self._folder.glob(_GROWING)))
            for path, fd in self._open.items():
                size = os.fstat(fd).st_size
                if size != self._synced.get(path):
                    self._sync(fd)
                    self._synced[path] = size
        except OSError as error:
            self._refused(error)
        else:
            self._is_refused = False

    def _keep_open(self, paths: set[Path]) -> None:
        # Open from one sync to the next: the kernel tells a failed write-back to those who had the file open then.
        for path in self._open.keys() - paths:
            os.close(self._open.pop(path))
            self._synced.pop(path, None)
        for path in paths - self._open.keys():
            with suppress(FileNotFoundError):
                self._open[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def _refused(self, error: OSError) -> None:
        if self._is_refused:
            return
        self._is_refused = True
        # A listener that fails must not cost the server its syncs.
        with suppress(Exception):
            self._on_failed(
                FileFailure(
                    f"the embedded broker's data in {self._folder} cannot be forced to the disk: {os_reason(error)}",
                    help="check this disk; a loss of power may take what the broker has acknowledged",
                )
            )
