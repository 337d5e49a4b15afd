"""The `relayctl` program with waits that a test may shorten: TEST_ADOPT_AFTER_S, in seconds. Run by path."""

from __future__ import annotations

import os
import sys


def main() -> None:
    wait = os.environ.pop("TEST_ADOPT_AFTER_S", None)
    if wait is not None:
        from relayctl.worker import registrar

        registrar.ADOPT_AFTER_S = float(wait)
    from relayctl.cli.app import main as relayctl

    sys.exit(relayctl())


if __name__ == "__main__":
    main()
