"""The forms of a lint that other programs read: each parses, places are right, and no secret is in any."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from support.cases import NOW, invalid_cases

from relayctl.core.names import AppName
from relayctl.core.problem import Place, Problem, Severity
from relayctl.render.annotations import github
from relayctl.render.ci import gitlab, junit, markdown
from relayctl.render.problems import as_json
from relayctl.render.sarif import RuleText, sarif
from relayctl.templates.load import check_text, load_tree
from relayctl.templates.rules.registry import BY_CODE

RULES = {code: RuleText(name=rule.name, summary=rule.summary, severity=rule.severity) for code, rule in BY_CODE.items()}


def _shape(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    properties = {**required, **optional}
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


_TEXT = _shape({"text": {"type": "string", "minLength": 1}})
_WORDS = _shape({"text": {"type": "string"}})
_NUMBER = {"type": "integer", "minimum": 1}
_FILE = _shape({"uri": {"type": "string", "pattern": r"^(?:file:///)?[^/\\:][^\\]*$"}})
_REGION = _shape({"startLine": _NUMBER, "startColumn": _NUMBER, "endColumn": _NUMBER}, endLine=_NUMBER)
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_FIX = _shape(
    {
        "description": _TEXT,
        "artifactChanges": {
            "type": "array",
            "minItems": 1,
            "items": _shape(
                {
                    "artifactLocation": _FILE,
                    "replacements": {
                        "type": "array",
                        "minItems": 1,
                        "items": _shape({"deletedRegion": _REGION}, insertedContent=_WORDS),
                    },
                }
            ),
        },
    }
)
_RULE = _shape(
    {
        "id": {"type": "string"},
        "name": {"type": "string"},
        "shortDescription": _TEXT,
        "help": _TEXT,
        "defaultConfiguration": _shape({"level": _LEVEL}),
    }
)
_RESULT = _shape(
    {
        "ruleId": {"type": "string"},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": _LEVEL,
        "message": _TEXT,
        "locations": {
            "type": "array",
            "items": _shape(
                {"physicalLocation": _shape({"artifactLocation": _FILE, "region": _REGION})},
                logicalLocations={"type": "array", "items": _shape({"fullyQualifiedName": {"type": "string"}})},
            ),
        },
        "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    fixes={"type": "array", "items": _FIX},
)
_LOG = _shape(
    {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": _shape(
                {
                    "tool": _shape(
                        {
                            "driver": _shape(
                                {
                                    "name": {"const": "relayctl"},
                                    "semanticVersion": {"type": "string"},
                                    "rules": {"type": "array", "items": _RULE, "uniqueItems": True},
                                }
                            )
                        }
                    ),
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "results": {"type": "array", "items": _RESULT},
                }
            ),
        },
    }
)
"""What SARIF 2.1.0 says of the parts that are written here, and nothing else."""


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    """One of each kind, as a checkout would name their files."""
    found = []
    for case in invalid_cases():
        root = f"{case.apps.parent.as_posix()}/"
        for problem in load_tree(case.apps, now=NOW).problems:
            assert problem.place.file.startswith(root)
            place = Place(
                file=problem.place.file.removeprefix(root), line=problem.place.line, column=problem.place.column,
                length=problem.place.length, path=problem.place.path, label=problem.place.label,
            )  # fmt: skip
            found.append(
                Problem(
                    code=problem.code,
                    severity=problem.severity,
                    place=place,
                    message=problem.message,
                    detail=problem.detail,
                    help=problem.help,
                    notes=problem.notes,
                    fix=problem.fix,
                )
            )
    return found


def test_sarif_is_what_the_standard_says(problems: list[Problem]) -> None:
    log = json.loads(sarif(problems, RULES, "1.2.3"))
    jsonschema.validate(log, _LOG, cls=jsonschema.Draft7Validator)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len(run["results"]) == len(problems) > 90
    for result, problem in zip(run["results"], problems, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == problem.code
        assert result["level"] == {"info": "note"}.get(problem.severity.value, problem.severity.value)
    assert any("fixes" in result for result in run["results"])


def test_a_place_outside_of_the_checkout_is_a_file_address() -> None:
    problem = Problem(code="RLY014", severity=Severity.ERROR, place=Place(file="/ö dir/a b.yml"), message="m")
    (result,) = json.loads(sarif([problem], RULES, "1"))["runs"][0]["results"]
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "file:///%C3%B6%20dir/a%20b.yml"}
    assert location["region"] == {"startLine": 1, "startColumn": 1, "endColumn": 2}


def test_gitlab_takes_in_a_report_with_fingerprints_of_its_own(problems: list[Problem]) -> None:
    report = json.loads(gitlab([*problems, *problems]))
    assert len({each["fingerprint"] for each in report}) == len(report) == 2 * len(problems)
    for each in report:
        assert set(each) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert each["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert each["location"]["lines"]["begin"] >= 1
        assert not each["location"]["path"].startswith(("/", "."))


def test_a_fingerprint_stays_while_lines_move() -> None:
    def prints(line: int) -> list[str]:
        places = [Place(file="a.yaml", line=line, path=f"schedules[{at}].cron") for at in range(2)]
        found = [Problem(code="RLY208", severity=Severity.WARNING, place=place, message="m") for place in places]
        return [each["fingerprint"] for each in json.loads(gitlab(found))]

    assert prints(3) == prints(30)
    assert len(set(prints(3))) == 2


def test_junit_has_a_case_for_each_file(problems: list[Problem]) -> None:
    clean = "apps/clean/template.yaml"
    root = ET.fromstring(junit(problems, [clean, *{problem.place.file for problem in problems}]))
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert set(cases) == {clean, *(problem.place.file for problem in problems)}
    assert len(cases[clean]) == 0
    broken = {problem.place.file for problem in problems if problem.is_error}
    assert {name for name, case in cases.items() if case.find("failure") is not None} == broken
    assert root.get("failures") == str(len(broken))


def test_what_cannot_be_in_xml_or_markdown_does_no_harm() -> None:
    place = Place(file="a\x1b[31m<b>|.yaml", line=3)
    problem = Problem(
        code="RLY104", severity=Severity.ERROR, place=place, message="x\x00 <img> | `y`\n# z", help="\x85"
    )
    assert ET.fromstring(junit([problem], [])).find(".//failure") is not None
    shown = markdown([problem], "1 error")
    assert len(shown.splitlines()) == 5
    assert "<img>" not in shown.replace("\\<", "") and all(char.isprintable() or char == "\n" for char in shown)
    assert "\\| \\`y\\`" in shown


def test_markdown_of_nothing_is_one_line() -> None:
    assert markdown([], "3 files: no problems") == "**relayctl validate**: 3 files: no problems\n"


@pytest.mark.parametrize(
    "text",
    [
        "env: {A_TOKEN: SECRET}\n",
        "concurrency: 1\nschedules:\n  - name: a\n    every: 1h\n    handler: j.r\n    env: {B_KEY: SECRET}\n    retries: 1\n",
        "env:\n  PASSWORD: 0x1f2e3d\n",
        "secrets: {A: 0x1f2e3d}\n",
        "env: {A: @SECRET}\n",
        "env: {A: *SECRET}\n",
        "env:\n\tA_TOKEN: SECRET\n",
    ],
)
def test_no_form_repeats_a_secret(text: str) -> None:
    secret = "ghp_" + "Ab1" * 12
    data = f"runtime: python\nservices:\n  - name: web\n    command: [./serve]\n{text.replace('SECRET', secret)}"
    _, found, _ = check_text(data.encode(), "apps/a/template.yaml", AppName("a"), None, NOW)
    assert found
    shown = (
        as_json(found, fixed=found) + sarif(found, RULES, "1") + gitlab(found) + junit(found, []) + github(found)
        + markdown(found, "")
    )  # fmt: skip
    assert secret[4:16] not in shown and "1f2e3d" not in shown
