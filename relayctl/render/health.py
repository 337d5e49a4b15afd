"""Health reports as text and as a document for programs; what a report means was decided before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relayctl.core.counting import counted
from relayctl.core.health import HealthReport, Weight
from relayctl.render.instants import span_text


def text(reports: Sequence[HealthReport], *, is_verbose: bool = False) -> str:
    """A line for each worker, and below it what is wrong; with `is_verbose` every check."""
    return "".join(f"{line}\n" for report in reports for line in _lines(report, is_verbose=is_verbose))


def as_document(reports: Sequence[HealthReport], *, is_sound: bool) -> dict[str, Any]:
    """A versioned document."""
    return {"v": 1, "sound": is_sound, "workers": [report.to_json() for report in reports]}


def _lines(report: HealthReport, *, is_verbose: bool) -> list[str]:
    verdict = "sound" if report.is_ready else "not ready" if report.is_live else "not sound"
    lines = [f"{report.worker}: {verdict}{_facts(report)}"]
    for check in report.checks if is_verbose else report.failures:
        mark = "ok" if check.is_ok else "note" if check.weight is Weight.NOTE else "FAILED"
        lines.append(f"  {mark:<6} {check.name}: {check.reason}")
    return lines


def _facts(report: HealthReport) -> str:
    if not report.pid:
        return ""
    parts = [
        f"pid {report.pid}",
        f"up {span_text(report.uptime)}",
        counted(report.apps, "app"),
        counted(report.schedules, "schedule"),
        f"{report.running} running",
    ]
    if report.revision:
        parts.append(f"revision {report.revision[:12]}")
    if report.http:
        parts.append(f"http {report.http}")
    return f"; {', '.join(parts)}"
