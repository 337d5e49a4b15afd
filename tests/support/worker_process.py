"""The `relayctl` program with waits that a test may shorten, and a watcher that it may silence. Run by path.

TEST_ADOPT_AFTER_S is how long a head must be held by nobody; with TEST_SILENT_WATCH no change is ever hinted at.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    wait = os.environ.pop("TEST_ADOPT_AFTER_S", None)
    if wait is not None:
        from relayctl.worker import registrar

        registrar.ADOPT_AFTER_S = float(wait)
    if os.environ.pop("TEST_SILENT_WATCH", None):
        from relayctl.sources.watch import DirectoryWatch

        DirectoryWatch.run = lambda self, stop: stop.wait()  # type: ignore[assignment,method-assign,return-value]
    from relayctl.cli.app import main as relayctl

    sys.exit(relayctl())


if __name__ == "__main__":
    main()
