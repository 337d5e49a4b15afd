"""The `relayctl` program with waits that a test may shorten, and parts that it may silence or break. Run by path.

TEST_ADOPT_AFTER_S is how long a head must be held by nobody; with TEST_SILENT_WATCH no change is ever hinted at.
TEST_GRACE_S is how long peers are waited for before work that nobody can run is ended. TEST_LATENESS_S is how long a
gap is lateness. While the file that TEST_OUTBOX_FULL names is there, the outbox cannot grow. TEST_BREAK names a defect
of `nemesis.breaks` that this worker has.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    wait = os.environ.pop("TEST_ADOPT_AFTER_S", None)
    if wait is not None:
        from relayctl.worker import unheld

        unheld.ADOPT_AFTER_S = float(wait)
    if os.environ.pop("TEST_SILENT_WATCH", None):
        from relayctl.sources.watch import DirectoryWatch

        DirectoryWatch.run = lambda self, stop: stop.wait()  # type: ignore[assignment,method-assign,return-value]
    grace = os.environ.pop("TEST_GRACE_S", None)
    if grace is not None:
        from relayctl.worker import stranded

        stranded.GRACE_S = stranded.LOOK_S = float(grace)
    lateness = os.environ.pop("TEST_LATENESS_S", None)
    if lateness is not None:
        from relayctl.core import due
        from relayctl.worker import gate

        due.LATENESS_S = gate.LATENESS_S = int(float(lateness))
    full = os.environ.pop("TEST_OUTBOX_FULL", None)
    if full is not None:
        _limit_outbox(Path(full))
    broken = os.environ.pop("TEST_BREAK", None)
    if broken is not None:
        from nemesis import breaks

        breaks.BREAKS[broken]()
    from relayctl.cli.app import main as relayctl

    sys.exit(relayctl())


def _limit_outbox(full: Path) -> None:
    """SQLite's own limit of pages stands for a disk that has none left."""
    from relayctl.host.database import Database

    retried = Database._retried

    def limited(self: Database, act):  # type: ignore[no-untyped-def]
        def within(connection):  # type: ignore[no-untyped-def]
            # Never below what is there already: the limit is then the size that the file has.
            connection.conn.execute(f"PRAGMA max_page_count = {1 if full.exists() else 1 << 30}")
            return act(connection)

        return retried(self, within)

    Database._retried = limited  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
