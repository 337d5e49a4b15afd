"""Every problem code with its name, severity, summary and kind of fix: what `relayctl rule` prints."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from relayctl.core.problem import Severity

_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO


class FixKind(Enum):
    """Whether an edit can cure it: safe keeps the meaning, unsafe changes what runs."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    NONE = "none"


_S, _U, _N = FixKind.SAFE, FixKind.UNSAFE, FixKind.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One code. What its page says besides is in `pages`."""

    code: str
    name: str
    severity: Severity
    summary: str
    fix: FixKind = FixKind.NONE

    @property
    def can_be_ignored(self) -> bool:
        """Whether a comment may silence it: never what makes a file unreadable, shapeless, or shows a secret, and
        nothing that no file decides."""
        is_of_lines = not self.is_of_plan and self.code not in _OF_DIRECTORIES
        return is_of_lines and self.code[3] not in "016" and self.code not in _CRON_ERRORS

    @property
    def is_of_plan(self) -> bool:
        """Whether `plan` alone can say it: it is about a fleet, or about two states of the tree."""
        return self.code in _OF_PLAN


_OF_DIRECTORIES = frozenset({"RLY702", "RLY706", "RLY707"})
_OF_PLAN = frozenset({"RLY307", "RLY507", "RLY605", "RLY705"})
_CRON_ERRORS = frozenset({"RLY201", "RLY202", "RLY203", "RLY204", "RLY205"})


def _rule(code: int, name: str, severity: Severity, fix: FixKind, summary: str) -> Rule:
    return Rule(code=f"RLY{code:03}", name=name, severity=severity, summary=summary, fix=fix)


RULES: tuple[Rule, ...] = (
    _rule(1, "unreadable-file", _E, _N, "The file cannot be read: permissions, encoding, size, or a broken link."),
    _rule(2, "yaml-syntax", _E, _N, "The file is not YAML."),
    _rule(3, "unquoted-star", _E, _S, "A value that starts with * needs quotes."),
    _rule(4, "unquoted-at", _E, _S, "A value that starts with @ needs quotes."),
    _rule(5, "tab-indent", _E, _S, "YAML is indented by spaces only."),
    _rule(6, "duplicate-key", _E, _N, "A key stands twice in one mapping."),
    _rule(7, "several-documents", _E, _N, "A template is one document."),
    _rule(8, "yaml11-boolean", _W, _S, "Old YAML readers take yes, no, on and off for booleans."),
    _rule(9, "yaml11-number", _W, _S, "Old YAML readers take this for another number."),
    _rule(10, "scalar-lost-text", _E, _S, "Text that looks like a number loses characters."),
    _rule(11, "yaml-directive", _E, _S, "A directive changes how the file is read."),
    _rule(12, "custom-tag", _E, _N, "Tags are not allowed."),
    _rule(13, "alias-expansion", _E, _N, "Aliases expand to too much, or into themselves."),
    _rule(
        14, "wrong-file-name", _E, _N, "A template is called template.yaml; another spelling would be skipped unseen."
    ),
    _rule(15, "empty-template", _E, _N, "The template holds nothing."),
    _rule(16, "anchors-used", _I, _N, "Anchors make a template harder to read."),
    _rule(101, "unknown-key", _E, _U, "The key is not known here."),
    _rule(102, "missing-key", _E, _N, "A key that is needed is missing."),
    _rule(103, "wrong-type", _E, _S, "The value is of another type than the key takes."),
    _rule(104, "bad-value", _E, _N, "The value is not one the key takes."),
    _rule(105, "no-event-or-service", _E, _N, "A template declares at least one event rule or service."),
    _rule(106, "key-at-wrong-level", _E, _U, "The key belongs to another level."),
    _rule(107, "bad-duration", _E, _S, "The text is not a duration."),
    _rule(108, "out-of-range", _E, _N, "The value is outside the range the key takes."),
    _rule(109, "unsupported-schema-version", _E, _N, "The template follows a schema newer than this release."),
    _rule(110, "deprecated-key", _W, _S, "The key still works, and will be refused by a later schema."),
    _rule(
        111, "missing-modeline", _I, _S, "Editors take template.yaml for another tool's file without the schema line."
    ),
    _rule(201, "cron-syntax", _E, _N, "A field of the cron expression cannot be read."),
    _rule(202, "field-count", _E, _N, "A cron expression has five fields."),
    _rule(203, "unsupported-descriptor", _E, _N, "Only the calendar descriptors are known."),
    _rule(204, "embedded-timezone", _E, _S, "The zone has a key of its own."),
    _rule(205, "never-fires", _E, _N, "No date matches the expression."),
    _rule(206, "rarely-fires", _W, _N, "Years can pass between two firings."),
    _rule(207, "day-or-day", _W, _U, "With both day fields set either one fires the job."),
    _rule(208, "uneven-step", _W, _U, "The step does not divide the field."),
    _rule(209, "step-too-wide", _W, _U, "The step is as wide as the field, or wider."),
    _rule(210, "skips-short-months", _W, _N, "The day is missing in short months."),
    _rule(211, "max-with-step", _W, _U, "A step from the last value fires once."),
    _rule(212, "equal-range", _W, _U, "A range of one value is read as all values elsewhere."),
    _rule(213, "wrapped-range", _E, _S, "A range runs upwards."),
    _rule(214, "non-contract-syntax", _E, _N, "L, W, #, ? and H are not cron."),
    _rule(215, "every-minute", _I, _N, "It fires every minute."),
    _rule(216, "not-canonical", _I, _S, "There is a plainer spelling."),
    _rule(301, "unknown-timezone", _E, _U, "The zone is not in the IANA database."),
    _rule(302, "local-timezone", _E, _N, "Local means another place on every machine."),
    _rule(303, "old-zone-name", _I, _S, "The zone has a newer name."),
    _rule(304, "fixed-offset-name", _W, _N, "The name is a fixed offset, and its sign may be reversed."),
    _rule(305, "dst-gap", _W, _N, "A clock change skips the time."),
    _rule(306, "dst-overlap", _W, _N, "A clock change repeats the time."),
    _rule(307, "tzdata-mismatch", _W, _N, "Workers reckon with other zone data than this machine."),
    _rule(401, "handler-format", _E, _N, "A handler is module.function, or a path for the exec runtime."),
    _rule(402, "handler-module-missing", _E, _N, "The app has no such module or file."),
    _rule(403, "handler-name-missing", _E, _U, "The module defines no such name."),
    _rule(
        404, "handler-not-callable", _E, _N, "The name cannot be called with one event, or the file cannot be executed."
    ),
    _rule(405, "handler-not-static", _I, _N, "Reading alone cannot tell whether the handler exists."),
    _rule(406, "handler-shadows-stdlib", _W, _N, "The handler's module hides one of Python's own."),
    _rule(407, "handler-syntax-error", _E, _N, "The handler's file does not parse."),
    _rule(501, "timeout-exceeds-gap", _W, _N, "A run may still be busy when the next one starts."),
    _rule(502, "retries-exceed-gap", _W, _N, "All attempts together outlast the gap between runs."),
    _rule(503, "herd", _W, _N, "Many schedules fire in one minute."),
    _rule(504, "minute-zero", _I, _U, "It fires at minute 0, with most other schedules."),
    _rule(505, "same-job-twice", _W, _N, "Two schedules run one handler at the same times."),
    _rule(506, "no-timeout", _I, _N, "The time limit of a run is left to the default."),
    _rule(507, "paused-long", _W, _N, "A schedule stays paused with no reason, or past the end of its pause."),
    _rule(
        508,
        "frequent-with-latest-only",
        _I,
        _N,
        "After an outage all but the latest of many firings are closed as missed.",
    ),
    _rule(601, "secret-literal", _E, _N, "A secret stands in the template."),
    _rule(602, "credentials-in-url", _E, _N, "A URL holds a password."),
    _rule(603, "private-key", _E, _N, "A private key stands in the template."),
    _rule(604, "secret-in-comment", _W, _N, "A comment holds what looks like a secret."),
    _rule(605, "undefined-secret-ref", _W, _N, "A secret that the template names has no value."),
    _rule(701, "duplicate-schedule", _E, _N, "Two schedules or services of an app have one name."),
    _rule(702, "bad-app-name", _E, _N, "The directory's name cannot be an app's name."),
    _rule(703, "bad-schedule-name", _E, _U, "The name holds characters that names may not have."),
    _rule(704, "lookalike-names", _W, _N, "Two names differ in punctuation only."),
    _rule(705, "looks-like-rename", _W, _N, "A removed and a new schedule look like one renamed."),
    _rule(706, "stray-directory", _I, _N, "A directory among the apps has no template."),
    _rule(707, "symlinked-app", _E, _N, "A link leaves the apps directory."),
    _rule(708, "contested-move", _W, _N, "A move across apps that cannot be: two take over, or the former name stays."),
    _rule(901, "unused-ignore", _W, _S, "The comment silences nothing."),
    _rule(902, "ignore-without-reason", _I, _N, "Say why."),
    _rule(903, "unknown-rule-code", _E, _N, "No rule has this code."),
    _rule(904, "malformed-ignore", _W, _N, "The comment is not of the form # relay: ignore[CODE] reason."),
)

BY_CODE: dict[str, Rule] = {rule.code: rule for rule in RULES}
