"""Work on many apps, divided over processes where that is worth their start. It knows nothing of what is done."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from relayctl.templates.find import TEMPLATE, AppDirectory

_APPS_PER_PROCESS = 100
_BYTES_PER_PROCESS = 200_000
"""Below these a further process costs more than it saves."""
_PARTS_EACH = 4

_Result = TypeVar("_Result")


def spread(
    apps: Sequence[AppDirectory],
    work: Callable[[Sequence[AppDirectory]], list[_Result]],
    processes: int | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> list[_Result]:
    """What `work` makes of the apps, in their order; `work` and its results can be pickled.

    `processes` None decides by the number of apps and the size of their templates. `meanwhile` is called while other
    processes work, so not at all where this one does; it should not raise.
    """
    wanted = min(_processes_for(apps) if processes is None else processes, len(apps))
    if wanted <= 1:
        return work(apps)
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    size = -(-len(apps) // (wanted * _PARTS_EACH))
    parts = [apps[at : at + size] for at in range(0, len(apps), size)]
    with ProcessPoolExecutor(max_workers=wanted, mp_context=get_context("fork")) as pool:
        found = pool.map(partial(_uncollected, work), parts)
        if meanwhile is not None:
            meanwhile()
        return [each for part in found for each in part]


def _uncollected(
    work: Callable[[Sequence[AppDirectory]], list[_Result]], apps: Sequence[AppDirectory]
) -> list[_Result]:
    """The work in a process that lives for one batch: collecting between many small values only costs time there."""
    gc.disable()
    return work(apps)


def _processes_for(apps: Sequence[AppDirectory]) -> int:
    # A process with threads must not fork.
    if threading.active_count() > 1:
        return 1
    by_size = sum(map(_size, apps)) // _BYTES_PER_PROCESS
    return min(os.cpu_count() or 1, 1 + max(len(apps) // _APPS_PER_PROCESS, by_size))


def _size(app: AppDirectory) -> int:
    try:
        return os.stat(app.real / TEMPLATE).st_size  # noqa: PTH116 - for every app of a large tree
    except OSError:
        return 0
