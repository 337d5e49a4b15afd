"""Which of an app's `resources` hold here, and what a process says that ran into one of them. Core files: none.

A control group keeps them for the whole tree. Without one that is memory alone, per process, by RLIMIT_DATA.
"""

from __future__ import annotations

import resource
import signal
from typing import TYPE_CHECKING

from relayctl.core.model import Resources
from relayctl.runners.cgroups import NOTHING, Delegation, Group
from relayctl.runners.invocation import Outcome

if TYPE_CHECKING:
    from relayctl.runners.verdict import Verdict

_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def unenforced(resources: Resources, delegation: Delegation = NOTHING) -> tuple[str, ...]:
    """The names of the declared limits that nothing enforces on this machine."""
    # RLIMIT_DATA keeps the one of memory, if only per process.
    return tuple(name for name in resources.declared if name != "memory" and not delegation.enforces(name))


def unenforceable(delegation: Delegation) -> tuple[str, ...]:
    """The names of the limits that nothing enforces on this machine, whoever declares them."""
    return unenforced(Resources(cpus=1.0, pids=1), delegation)


def data_limit(resources: Resources) -> int:
    """Bytes for RLIMIT_DATA of each process; 0 is no limit."""
    return resources.memory or 0


def forbid_core_files() -> None:
    """For this process and all that it starts: what they keep in memory, secrets too, must not end in a file."""
    # One byte rather than none: the kernel pipes a core to a program whatever the limit, but for this one.
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    least = 0 if hard == 0 else 1
    resource.setrlimit(resource.RLIMIT_CORE, (least, least))


def excess_of(group: Group | None, resources: Resources) -> str:
    """What killed a tree that was out of memory, in words; empty when nothing of the kind did."""
    if group is None or resources.memory is None or not group.is_out_of_memory():
        return ""
    return f"killed: more than {_size(resources.memory)} of memory"


def explained(verdict: Verdict, group: Group | None, resources: Resources) -> Verdict:
    """The verdict on a run with the limit that it ran into, where its control group tells of one."""
    if group is None or verdict.outcome not in (Outcome.FAILED, Outcome.LOST):
        return verdict
    excess = excess_of(group, resources) if verdict.signal == signal.SIGKILL else ""
    if excess:
        return verdict._replace(outcome=Outcome.FAILED, reason=excess)
    if resources.pids is not None and group.has_refused_processes():
        return verdict._replace(reason=f"{verdict.reason} (it was refused more than {resources.pids} processes)")
    return verdict


def _size(count: int) -> str:
    return next((f"{count / unit:g} {name}" for unit, name in _UNITS if count >= unit), f"{count} bytes")
