"""An import as the files of an app: `template.yaml` and one script per job. Pure text; nothing is written here."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from relayctl.core.carried import Import, Job
from relayctl.core.cron import Cron, Every
from relayctl.core.duration import format_duration
from relayctl.templates.gaps import shortest_gap

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./ -]*[A-Za-z0-9]", re.ASCII)
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off"})

_HEAD = """\
# yaml-language-server: $schema=../../schemas/template.schema.json
# $schema: ../../schemas/template.schema.json
runtime: exec
"""

_EVENT = """\
events:
  # A template has at least one event rule or service. This one runs the first job on demand:
  #   echo '{{"event_name": "{app}.run"}}' | relayctl emit -
  - handler: {handler}
    pattern: {{event_name: ["{app}.run"]}}
    timeout: {timeout}
    retries: 0
"""


def app_files(found: Import, app: str) -> dict[str, str]:
    """Path in the app's folder to text; empty where there is no job. Scripts are what lies in `bin/`."""
    if not found.jobs:
        return {}
    first = found.jobs[0]
    parts = [_HEAD]
    if found.secrets:
        parts.append("secrets:\n" + "".join(f"  {name}: {_text(ref)}\n" for name, ref in found.secrets.items()))
    parts.append(_EVENT.format(app=app, handler=_script_of(first), timeout=format_duration(first.timeout)))
    parts.append("schedules:\n")
    parts += [_schedule(job) for job in found.jobs]
    return {"template.yaml": "".join(parts), **{_script_of(job): job.script for job in found.jobs}}


def _script_of(job: Job) -> str:
    return f"bin/{job.name}.sh"


def _schedule(job: Job) -> str:
    keys: dict[str, str] = {"name": _text(job.name), "handler": _script_of(job)}
    keys |= {"every": job.every} if job.every else {"cron": json.dumps(job.cron)}
    if not job.every and job.timezone != "UTC":
        keys["timezone"] = job.timezone
    keys |= {"timeout": format_duration(job.timeout) + _excuse(job), "retries": str(job.retries)}
    keys |= _unusual(job)
    lines = [f"{key}: {value}" for key, value in keys.items()]
    return "  - " + "\n    ".join(lines) + "\n"


def _excuse(job: Job) -> str:
    """A comment where runs may meet, as they may in the tool that the job comes from."""
    gap = shortest_gap(Every.parse(job.every) if job.every else Cron.parse(job.cron, job.timezone))
    if job.overlap != "allow" or gap is None or job.timeout <= gap:
        return ""
    return "  # relay: ignore[RLY501] runs may meet, as they might before"


def _unusual(job: Job) -> Mapping[str, str]:
    """What differs from what the keys would be without being written."""
    keys: dict[str, str] = {}
    if job.catch_up != "latest":
        keys["catch_up"] = job.catch_up
    if job.overlap != "allow":
        keys["overlap"] = job.overlap
    if job.jitter:
        keys["jitter"] = job.jitter
    if not job.is_enabled:
        keys["enabled"] = "false"
    if job.description:
        keys["description"] = json.dumps(job.description, ensure_ascii=False)
    return keys


def _text(value: str) -> str:
    return value if _PLAIN.fullmatch(value) and value not in _WORDS else json.dumps(value)
