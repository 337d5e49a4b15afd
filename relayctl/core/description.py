"""An app in words that two sides can compare: what its files say, and what a worker reports to run.

Values of environment variables appear as digests and secrets as references, so a description may be stored and sent.
Two templates that mean the same have equal descriptions, except that a cron stays as it was written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from relayctl.core.cron import Cron, Every
from relayctl.core.definition import Spec
from relayctl.core.duration import format_duration
from relayctl.core.model import App, Contract, EventRule, Schedule, Service

DESCRIPTION_VERSION = 1

Fields = Mapping[str, str]
"""Field to its value as a template would spell it, in the order in which they are shown."""
HIDDEN = frozenset({"hash", "spec", "moved_from"})
"""Fields that are shown in other words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """One app: its own settings, and its schedules, event rules and services by name."""

    revision: str
    settings: Fields
    schedules: Mapping[str, Fields]
    events: Mapping[str, Fields]
    services: Mapping[str, Fields]

    def to_json(self) -> str:
        """The text in which a worker reports it."""
        return json.dumps(
            {
                "v": DESCRIPTION_VERSION,
                "revision": self.revision,
                "settings": dict(self.settings),
                "schedules": dict(self.schedules),
                "events": dict(self.events),
                "services": dict(self.services),
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> Description | None:
        """Read a report; None for one of a higher version."""
        document = json.loads(text)
        if document.pop("v", 0) > DESCRIPTION_VERSION:
            return None
        return cls(**document)


def describe_app(app: App, revision: str) -> Description:
    """The description of a loaded app; `revision` is the digest of its files."""
    return Description(
        revision=revision,
        settings=_settings(app),
        schedules={schedule.name: describe_schedule(schedule) for schedule in app.schedules},
        events={rule.contract.handler: _event(rule) for rule in app.events},
        services={service.name: _service(service) for service in app.services},
    )


def describe_schedule(schedule: Schedule) -> dict[str, str]:
    """The fields of one schedule. `hash` covers what decides when it fires, by this machine's zone data."""
    spec = Spec.of(schedule)
    return {
        **_trigger(schedule.trigger),
        "enabled": _yes(schedule.enabled),
        **_contract(schedule.contract),
        "overlap": schedule.overlap.value,
        "catch_up": schedule.catch_up.value,
        "jitter": format_duration(schedule.jitter),
        "input": schedule.input or "",
        **({} if schedule.moved_from is None else {"moved_from": "/".join(schedule.moved_from)}),
        "hash": spec.hash,
        "spec": spec.text,
    }


def _trigger(trigger: Cron | Every) -> dict[str, str]:
    if isinstance(trigger, Every):
        return {"every": format_duration(timedelta(seconds=trigger.seconds))}
    return {
        "cron": " ".join(trigger.expression.split()),
        "timezone": trigger.timezone,
        "dst": ", ".join(
            f"{name}: {habit.value}"
            for name, habit in (("gap", trigger.dst.gap), ("fold", trigger.dst.fold))
            if habit is not None
        ),
    }


def _contract(contract: Contract) -> dict[str, str]:
    return {
        "handler": contract.handler,
        "timeout": format_duration(contract.timeout),
        "retries": str(contract.retries),
        "backoff": ", ".join(format_duration(wait) for wait in contract.backoff),
    }


def _event(rule: EventRule) -> dict[str, str]:
    return {"pattern": rule.pattern.canonical, **_contract(rule.contract)}


def _service(service: Service) -> dict[str, str]:
    check = service.check
    return {
        "entrypoint": service.entrypoint or "",
        "command": json.dumps(service.command) if service.command else "",
        "port": "" if service.port is None else str(service.port),
        "replicas": str(service.replicas),
        "check": ""
        if check is None
        else f"{check.path} every {format_duration(check.interval)}, {format_duration(check.timeout)} each",
    }


def _settings(app: App) -> dict[str, str]:
    resources = app.resources
    return {
        "runtime": app.runtime or "",
        "concurrency": str(app.concurrency),
        "isolation": app.isolation.value,
        "memory": "" if resources.memory is None else str(resources.memory),
        "cpus": "" if resources.cpus is None else f"{resources.cpus:g}",
        "pids": "" if resources.pids is None else str(resources.pids),
        **{f"env.{name}": _digest(value) for name, value in app.env},
        **{f"secrets.{name}": reference for name, reference in app.secrets},
    }


def _digest(value: str) -> str:
    return hashlib.blake2b(value.encode(errors="surrogateescape"), digest_size=8, person=b"relay-env").hexdigest()


def _yes(flag: bool) -> str:
    return "true" if flag else "false"
