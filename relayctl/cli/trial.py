"""A run of a handler on this machine, with no worker and no broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relayctl.core.trial import Trial
    from relayctl.runners.invocation import Ended
    from relayctl.settings import Settings

MESSAGE = "local"
"""Stands where a worker gives the id of the message."""


def run_trial(trial: Trial, directory: Path, settings: Settings, show: Callable[[str, str], None]) -> Ended:
    """Run it to its end; `show(stream, line)` gets each line of output, made harmless and with secrets masked."""
    from relayctl.host.clock import SystemClock
    from relayctl.host.secrets import SecretStore
    from relayctl.host.state import StateDir
    from relayctl.runners.build import Build
    from relayctl.runners.environ import base_environ
    from relayctl.runners.once import run_once
    from relayctl.runners.trialrun import run_of_trial

    clock = SystemClock()
    return run_once(
        Build.of(trial.app, directory.resolve(), MESSAGE),
        run_of_trial(trial, MESSAGE, clock.now(), settings.max_timeout),
        clock=clock,
        secrets=SecretStore(settings.secrets_dir, StateDir(settings.state_dir).secrets).resolve,
        on_line=lambda _run, stream, line: show(stream, line),
        base_environ=base_environ(),
    )
