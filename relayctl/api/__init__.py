"""What relayctl can be asked from Python: what runs, what a tree would change, orders, and the account.

The command line stands on it. It needs no worker in this process, waits for its answers, and reads no settings.
Everything raises `errors.RelayError`, whose message and help are for people.
"""

from relayctl.api.account import history, logs, why
from relayctl.api.desired import Desired, desired_of, read_desired
from relayctl.api.observation import Observation, beat_age, observe, observe_or_nothing, with_removed
from relayctl.api.operating import dead_letters, force_due, orders, pause, resume, trigger
from relayctl.api.place import Place, target_of
from relayctl.api.planning import apply, basis, compare, plan, plan_of
from relayctl.api.registration import Registered, Registration, register, registering

__all__ = [
    "Desired",
    "Observation",
    "Place",
    "Registered",
    "Registration",
    "apply",
    "basis",
    "beat_age",
    "compare",
    "dead_letters",
    "desired_of",
    "force_due",
    "history",
    "logs",
    "observe",
    "observe_or_nothing",
    "orders",
    "pause",
    "plan",
    "plan_of",
    "read_desired",
    "register",
    "registering",
    "resume",
    "target_of",
    "trigger",
    "why",
    "with_removed",
]
