"""Exit codes: one table for all errors, and lines that can be printed raw."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from relayctl import errors
from relayctl.cli import exits
from relayctl.cli.exits import Code


def _family(kind: type[errors.RelayError]) -> Iterator[type[errors.RelayError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _family(child)


EXPECTED = {
    "RelayError": 3, "UsageError": 2, "UnknownTarget": 2, "FileFailure": 3, "SecretMissing": 3, "NoTemplates": 9,
    "InvalidTemplates": 1, "BrokerError": 3, "BrokerUnavailable": 3, "ReplyLost": 3, "BrokerRefused": 3, "ArgumentsRefused": 3,
    "BrokerUnsuitable": 3,
    "BrokerDamaged": 3, "NoBroker": 3, "StateBusy": 6, "Refused": 7, "ModeConflict": 7, "StalePlan": 5,
    "NotConverged": 8, "WorkerUnreachable": 3, "ConnectionLost": 3, "RequestRejected": 3, "NewerFormat": 3,
    "BundleDamaged": 3, "SourceUnavailable": 3, "RegistrationConflict": 7, "RegistryChanged": 5,
}  # fmt: skip


@pytest.mark.parametrize("kind", [kind for kind in _family(errors.RelayError) if kind.__module__ == "relayctl.errors"])
def test_every_error_has_its_code(kind: type[errors.RelayError]) -> None:
    assert exits.code_of(kind("x")) == EXPECTED[kind.__name__]


def test_the_codes_are_those_of_the_documented_table() -> None:
    assert {code.value for code in Code} == {0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 130, 141, 143}


def test_an_error_is_told_with_its_way_out() -> None:
    error = errors.UnknownTarget('no app "x"', help="did you mean\n  y?")
    assert exits.lines_of(error) == ['error: no app "x"', "  help: did you mean", "          y?"]
    assert exits.lines_of(errors.NoBroker()) == ["error: No broker is configured and none can be started here."]


def test_control_characters_are_never_printed_raw() -> None:
    assert exits.harmless("a\x1b[31m\r\nb\x07") == "a\\x1b[31m\\x0d\nb\\x07"
    assert exits.harmless("a\u202eb\u0085") == "a\\u202eb\\x85"


def test_an_internal_error_shows_its_type_and_place_and_not_its_text() -> None:
    try:
        exits.code_of("hunter2")  # type: ignore[arg-type]
    except StopIteration as error:
        line, way_out = exits.internal_lines(error, None)
    assert line.startswith("error: internal error: StopIteration in relayctl.cli.exits:")
    assert "hunter2" not in line
    assert "-v" in way_out


def test_a_report_holds_the_stack_and_no_values() -> None:
    from pathlib import Path

    from relayctl.cli.report import write_report

    try:
        raise RuntimeError("hunter2")
    except RuntimeError as error:
        path = write_report(error)
    assert path is not None
    text = Path(path).read_text()
    assert "RuntimeError" in text and "test_exits.py" in text and "hunter2" not in text
    assert Path(path).stat().st_mode & 0o077 == 0
    Path(path).unlink()
