"""Which of an app's `resources` hold here. Without a cgroup that is memory alone, per process, by RLIMIT_DATA."""

from __future__ import annotations

from relayctl.core.model import Resources


def unenforced(resources: Resources) -> tuple[str, ...]:
    """The names of the declared limits that nothing enforces on this machine."""
    return tuple(name for name in ("cpus", "pids") if getattr(resources, name) is not None)


def data_limit(resources: Resources) -> int:
    """Bytes for RLIMIT_DATA of each process; 0 is no limit."""
    return resources.memory or 0
