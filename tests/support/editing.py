"""Templates as somebody writes them in an editor: one with every key, and broken ones with what is underlined."""

from __future__ import annotations

from dataclasses import dataclass

FULL = """\
runtime: python
concurrency: 3
isolation: fresh
resources:
  memory: 256MiB
  cpus: 0.5
  pids: 64
env:
  API_URL: "https://api.example.com"
secrets:
  DATABASE_URL: database-url
x-shared:
  timeout: 3s
events:
  - handler: events.created
    pattern:
      event_name: [INSERT]
    timeout: 10s
    retries: 1
    backoff: [1m, 2m]
schedules:
  - name: nightly
    handler: jobs.run
    cron: "30 2 * * *"
    timezone: Europe/Rome
    dst:
      gap: skip
      fold: both
    timeout: 20s
    retries: 2
    backoff: [30s]
    enabled: false
    overlap: skip
    catch_up: none
    jitter: 30s
    input:
      report: weekly
    moved_from: billing/cleanup
    description: Deletes expired sessions
  - name: often
    handler: jobs.run
    every: 15m
services:
  - name: web
    entrypoint: service.py
    port: 3000
    replicas: 2
    check:
      path: /healthz
      interval: 20s
      timeout: 3s
  - name: other
    command: [./serve, --quiet]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A template with one mistake, and the line and words of what an editor underlines."""

    name: str
    text: str
    line: int
    message: str


_SERVICE = "services:\n  - name: web\n    command: [./serve]\n"
_DURATION = "A duration with units, the larger first: 20s, 5m, 1h30m, 500ms."
_CRON = (
    "Five fields (minute hour day month weekday) with values in their ranges, or a descriptor such as @daily; "
    "relayctl explain says more."
)
_NEEDS = "A template needs events or services; schedules alone are not enough."


def _service(more: str, line: int, message: str, name: str) -> Broken:
    return Broken(name=name, text=_SERVICE + more, line=line, message=message)


def _schedule(keys: str, line: int, message: str, name: str) -> Broken:
    body = "".join(f"    {key}\n" for key in keys.splitlines())
    text = f"runtime: python\n{_SERVICE}schedules:\n  - name: nightly\n    handler: jobs.run\n{body}"
    return Broken(name=name, text=text, line=line, message=message)


BROKEN = (
    _service("retries: 3\n", 4, "Property retries is not allowed.", "key-of-another-level"),
    _schedule('cron: "@daily"\nretires: 2', 9, "Property retires is not allowed.", "misspelt-key"),
    _schedule('cron: "@daily"\ndst: {gaps: run}', 9, "Property gaps is not allowed.", "misspelt-key-inside"),
    _service(
        "runtime: ruby\n",
        4,
        "The runtime is python, python with a version such as python3.12, node or exec.",
        "runtime",
    ),
    _service("concurrency: 0\n", 4, "Value is below the minimum of 1.", "too-small"),
    _service("    port: 70000\n", 4, "Value is above the maximum of 65535.", "too-large"),
    _service('concurrency: "2"\n', 4, 'Incorrect type. Expected "integer".', "number-in-quotes"),
    _service("concurrency:\n", 4, 'Incorrect type. Expected "integer".', "no-value"),
    _service("isolation: hot\n", 4, 'Value is not accepted. Valid values: "warm", "fresh".', "choice"),
    _service(
        "resources: {memory: 256MB}\n",
        4,
        "A binary size with its unit: KiB, MiB or GiB, such as 256MiB.",
        "memory",
    ),
    _service(
        "env: {1A: x}\n", 4, "The name of a variable: letters, digits and _, not beginning with a digit.", "variable"
    ),
    _service("env: {A: [x]}\n", 4, "Incorrect type. Expected one of string, number, boolean.", "list-for-a-text"),
    _service(
        "secrets: {A: 'a b'}\n",
        4,
        "The name of a stored secret: letters, digits, dot, underscore and dash.",
        "secret-that-is-no-name",
    ),
    Broken(
        name="schedules-alone",
        text="runtime: python\nschedules:\n  - {name: a, handler: a.b, cron: '@daily'}\n",
        line=1,
        message=_NEEDS,
    ),
    Broken(
        name="no-pattern",
        text="runtime: python\nevents:\n  - handler: a.b\n",
        line=3,
        message='Missing property "pattern".',
    ),
    Broken(
        name="pattern-that-is-a-list",
        text="runtime: python\nevents:\n  - handler: a.b\n    pattern: [a]\n",
        line=4,
        message="A pattern is a mapping: field to a list of alternatives, or to a nested pattern.",
    ),
    _schedule('cron: "61 3 * * *"', 8, _CRON, "cron-out-of-range"),
    _schedule('cron: "0 0 3 * * *"', 8, _CRON, "cron-with-seconds"),
    _schedule('every: 15m\ncron: "@daily"', 9, "A schedule has cron or every, not both.", "two-triggers"),
    _schedule("enabled: false", 6, "A schedule needs cron or every.", "no-trigger"),
    _schedule("every: 15 minutes", 8, _DURATION, "interval-in-words"),
    _schedule('cron: "@daily"\ntimeout: 20', 9, _DURATION, "duration-without-a-unit"),
    _schedule('cron: "@daily"\nbackoff: []', 9, "Array has too few items. Expected 1 or more.", "empty-list"),
    _schedule(
        'cron: "@daily"\noverlap: forbid',
        9,
        'Value is not accepted. Valid values: "allow", "skip", "queue".',
        "overlap",
    ),
    _schedule(
        'cron: "@daily"\ntimezone: Europe Rome',
        9,
        "The name of an IANA time zone, such as Europe/Rome or UTC.",
        "zone",
    ),
    _schedule(
        'cron: "@daily"\nmoved_from: cleanup', 9, "An app and a schedule of it, such as billing/cleanup.", "moved-from"
    ),
    _schedule('cron: "@daily"\ninput: [1]', 9, "The input is a mapping.", "input-that-is-a-list"),
    _service("    entrypoint: a.py\n", 4, "A service has entrypoint or command, not both.", "two-programs"),
    Broken(
        name="no-program",
        text="services:\n  - name: web\n",
        line=2,
        message="A service needs entrypoint or command.",
    ),
    _service("    check: {path: healthz}\n", 4, "The path begins with a slash, as in /healthz.", "check-path"),
    _service("isolation: warm\nisolation: warm\n", 5, "Map keys must be unique", "twice-the-same-key"),
)
