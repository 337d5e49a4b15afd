"""Problems as a SARIF 2.1.0 log, for code scanning. Values of the file are in it only where a fix writes them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from relayctl.core.problem import Edit, Fix, Place, Problem, Severity

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleText:
    """What the log says about a rule."""

    name: str
    summary: str
    severity: Severity


def sarif(problems: Sequence[Problem], rules: Mapping[str, RuleText], version: str) -> str:
    """The log of one run of this `version`. Places are as the problems name them."""
    codes = sorted({problem.code for problem in problems})
    run = {
        "tool": {
            "driver": {
                "name": "relayctl",
                "semanticVersion": version,
                "rules": [_rule(code, rules[code]) for code in codes],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(problem, codes.index(problem.code)) for problem in problems],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=True) + "\n"


def fingerprint(problem: Problem) -> str:
    """What a finding is known by while lines move: its rule, its file, its place in the document and its words."""
    place = problem.place
    words = "\0".join((problem.code, place.file, place.label, place.path, problem.message))
    return hashlib.sha256(words.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _rule(code: str, text: RuleText) -> dict[str, Any]:
    return {
        "id": code,
        "name": text.name,
        "shortDescription": {"text": text.summary},
        "help": {"text": f"relayctl rule {code}"},
        "defaultConfiguration": {"level": _LEVEL[text.severity]},
    }


def _result(problem: Problem, rule: int) -> dict[str, Any]:
    sentences = [problem.message, problem.detail, *problem.notes, f"help: {problem.help}" if problem.help else ""]
    result: dict[str, Any] = {
        "ruleId": problem.code,
        "ruleIndex": rule,
        "level": _LEVEL[problem.severity],
        "message": {"text": "\n".join(filter(None, sentences))},
        "locations": [
            {"physicalLocation": {"artifactLocation": _file(problem.place), "region": _region(problem.place)}}
        ],
        "partialFingerprints": {"relayctl/v1": fingerprint(problem)},
    }
    if problem.place.label or problem.place.path:
        named = {"fullyQualifiedName": problem.place.path or problem.place.label}
        result["locations"][0]["logicalLocations"] = [named]
    if problem.fix is not None and not problem.fix.repeats_lines:
        result["fixes"] = [_fix(problem.place, problem.fix)]
    return result


def _file(place: Place) -> dict[str, str]:
    lead = "file://" if place.file.startswith("/") else ""
    return {"uri": lead + quote(place.file)}


def _region(place: Place) -> dict[str, int]:
    return {
        "startLine": max(place.line, 1),
        "startColumn": max(place.column, 1),
        "endColumn": max(place.column, 1) + max(place.length, 1),
    }


def _fix(place: Place, fix: Fix) -> dict[str, Any]:
    changes = [{"artifactLocation": _file(place), "replacements": [_replacement(edit) for edit in fix.edits]}]
    return {"description": {"text": fix.description}, "artifactChanges": changes}


def _replacement(edit: Edit) -> dict[str, Any]:
    region = {
        "startLine": edit.line,
        "startColumn": edit.column,
        "endLine": edit.end_line,
        "endColumn": edit.end_column,
    }
    return {"deletedRegion": region, "insertedContent": {"text": edit.text}}
