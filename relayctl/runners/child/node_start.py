"""Becomes a node child, after asking the kernel to end it together with the worker, which node cannot ask itself.

Standard library only. Arguments: node, the channel's descriptor, the worker's pid, a data limit in bytes with `:` and a
control group where there is one, how many of the arguments that follow are node's own, those, the program, its own.
"""

# ruff: noqa: PTH100, PTH120
from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relayctl.runners.child.exec_shim import die_with, enter, limit_data, reset_signals
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from exec_shim import die_with, enter, limit_data, reset_signals


def main(node: str, fd: int, parent: int, limits: str, options: int, *arguments: str) -> None:
    die_with(parent)
    limit, _, group = limits.partition(":")
    enter(group)
    reset_signals()
    limit_data(int(limit))
    own, (program, *rest) = arguments[:options], arguments[options:]
    try:
        os.execve(node, [node, *own, program, str(fd), *rest], os.environ)  # noqa: S606 - no shell is the point
    except OSError as error:
        sys.exit(f"{node} cannot be run: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5]), *sys.argv[6:])
