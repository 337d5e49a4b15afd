"""Problems as reports that continuous integration takes in: GitLab's code quality, JUnit, and Markdown to be posted."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree as ET

from relayctl.core.problem import Problem, Severity
from relayctl.render.sarif import fingerprint

_GITLAB = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.INFO: "info"}
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|#~$])")


def gitlab(problems: Sequence[Problem]) -> str:
    """A code quality report. Fingerprints stay while lines move, and differ where two findings are alike."""
    seen: Counter[str] = Counter()
    report = []
    for problem in problems:
        mark = fingerprint(problem)
        seen[mark] += 1
        report.append(
            {
                "description": problem.message + (f" (help: {problem.help})" if problem.help else ""),
                "check_name": problem.code,
                "fingerprint": mark if seen[mark] == 1 else f"{mark}-{seen[mark]}",
                "severity": _GITLAB[problem.severity],
                "location": {"path": problem.place.file, "lines": {"begin": max(problem.place.line, 1)}},
            }
        )
    return json.dumps(report, indent=2, ensure_ascii=True) + "\n"


def junit(problems: Sequence[Problem], files: Sequence[str]) -> str:
    """A test case for each file looked at: errors are its failures, the rest is its output."""
    by_file: Mapping[str, list[Problem]] = {
        file: [] for file in [*files, *(problem.place.file for problem in problems)]
    }
    for problem in problems:
        by_file[problem.place.file].append(problem)
    failed = sum(any(problem.is_error for problem in found) for found in by_file.values())
    suite = ET.Element(
        "testsuite", name="relayctl validate", tests=str(len(by_file)), failures=str(failed), errors="0", skipped="0"
    )
    for file, found in by_file.items():
        case = ET.SubElement(suite, "testcase", name=_xml(file), classname="relayctl.validate", file=_xml(file))
        errors = [problem for problem in found if problem.is_error]
        if errors:
            failure = ET.SubElement(
                case, "failure", type=errors[0].code, message=_xml(f"{errors[0].code} {errors[0].message}")
            )
            failure.text = _xml("\n".join(map(_line, errors)))
        others = [problem for problem in found if not problem.is_error]
        if others:
            ET.SubElement(case, "system-out").text = _xml("\n".join(map(_line, others)))
    root = ET.Element("testsuites", tests=suite.get("tests", ""), failures=suite.get("failures", ""))
    root.append(suite)
    ET.indent(root)
    # Written as ASCII: what cannot be in it is in character references, which every reader knows.
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root).decode("ascii") + "\n"


def markdown(problems: Sequence[Problem], summary: str) -> str:
    """A heading with the count and a table, one row for each problem."""
    lines = [f"**relayctl validate**: {_md(summary)}", ""]
    if problems:
        lines += ["| place | | rule | finding | way out |", "| --- | --- | --- | --- | --- |"]
    for problem in problems:
        place = f"{_md(problem.place.file)}:{problem.place.line}:{problem.place.column}"
        found = problem.message + (f" ({problem.detail})" if problem.detail else "")
        lines.append(f"| {place} | {problem.severity.value} | {problem.code} | {_md(found)} | {_md(problem.help)} |")
    return "\n".join(lines).rstrip() + "\n"


def _line(problem: Problem) -> str:
    place = problem.place
    way = f"\n  help: {problem.help}" if problem.help else ""
    return f"{place.file}:{place.line}:{place.column}: {problem.severity.value} {problem.code} {problem.message}{way}"


def _xml(text: str) -> str:
    return _NOT_XML.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def _md(text: str) -> str:
    plain = "".join(char if char.isprintable() else " " for char in text)
    return _MARKDOWN.sub(r"\\\1", plain)
