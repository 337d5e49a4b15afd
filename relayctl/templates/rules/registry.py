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
    """One code. `bad` and `good` are templates, or parts of one, that show it."""

    code: str
    name: str
    severity: Severity
    summary: str
    fix: FixKind = FixKind.NONE
    bad: str = ""
    good: str = ""

    @property
    def can_be_ignored(self) -> bool:
        """Whether a comment may silence it: never what makes a file unreadable, shapeless, or shows a secret."""
        return self.code[3] not in "016" and self.code not in _CRON_ERRORS


_CRON_ERRORS = frozenset({"RLY201", "RLY202", "RLY203", "RLY204", "RLY205"})


def _rule(code: int, name: str, severity: Severity, fix: FixKind, summary: str, bad: str = "", good: str = "") -> Rule:
    return Rule(code=f"RLY{code:03}", name=name, severity=severity, summary=summary, fix=fix, bad=bad, good=good)


RULES: tuple[Rule, ...] = (
    _rule(1, "unreadable-file", _E, _N, "The file cannot be read: permissions, encoding, size, or a broken link."),
    _rule(2, "yaml-syntax", _E, _N, "The file is not YAML.", "env: {A: 'x", "env: {A: 'x'}"),
    _rule(
        3,
        "unquoted-star",
        _E,
        _S,
        "A value that starts with * needs quotes.",
        "cron: */5 * * * *",
        'cron: "*/5 * * * *"',
    ),
    _rule(4, "unquoted-at", _E, _S, "A value that starts with @ needs quotes.", "cron: @daily", 'cron: "@daily"'),
    _rule(5, "tab-indent", _E, _S, "YAML is indented by spaces only.", "env:\n\tA: x", "env:\n  A: x"),
    _rule(6, "duplicate-key", _E, _N, "A key stands twice in one mapping.", "timeout: 6s\ntimeout: 9s", "timeout: 9s"),
    _rule(7, "several-documents", _E, _N, "A template is one document."),
    _rule(
        8,
        "yaml11-boolean",
        _W,
        _S,
        "Old YAML readers take yes, no, on and off for booleans.",
        "DEBUG: on",
        'DEBUG: "on"',
    ),
    _rule(9, "yaml11-number", _W, _S, "Old YAML readers take this for another number.", "AT: 12:30", 'AT: "12:30"'),
    _rule(
        10,
        "scalar-lost-text",
        _E,
        _S,
        "Text that looks like a number loses characters.",
        "SHA: 0757192",
        'SHA: "0757192"',
    ),
    _rule(11, "yaml-directive", _E, _S, "A directive changes how the file is read.", "%YAML 1.1\n---", ""),
    _rule(12, "custom-tag", _E, _N, "Tags are not allowed.", "A: !Ref x", 'A: "x"'),
    _rule(13, "alias-expansion", _E, _N, "Aliases expand to too much, or into themselves."),
    _rule(
        14, "wrong-file-name", _E, _N, "A template is called template.yaml; another spelling would be skipped unseen."
    ),
    _rule(15, "empty-template", _E, _N, "The template holds nothing."),
    _rule(16, "anchors-used", _I, _N, "Anchors make a template harder to read."),
    _rule(101, "unknown-key", _E, _U, "The key is not known here.", "retires: 2", "retries: 2"),
    _rule(102, "missing-key", _E, _N, "A key that is needed is missing."),
    _rule(103, "wrong-type", _E, _S, "The value is of another type than the key takes.", "retries: 2.0", "retries: 2"),
    _rule(104, "bad-value", _E, _N, "The value is not one the key takes.", "overlap: never", "overlap: skip"),
    _rule(105, "no-event-or-service", _E, _N, "A template declares at least one event rule or service."),
    _rule(
        106,
        "key-at-wrong-level",
        _E,
        _U,
        "The key belongs to another level.",
        "timezone: Europe/Rome  # at the top",
        "",
    ),
    _rule(107, "bad-duration", _E, _S, "The text is not a duration.", "timeout: 20 sec", "timeout: 20s"),
    _rule(108, "out-of-range", _E, _N, "The value is outside the range the key takes.", "port: 70000", "port: 7000"),
    _rule(109, "unsupported-schema-version", _E, _N, "The template follows a schema newer than this release."),
    _rule(110, "deprecated-key", _W, _S, "The key still works, and will be refused by a later schema."),
    _rule(
        111, "missing-modeline", _I, _S, "Editors take template.yaml for another tool's file without the schema line."
    ),
    _rule(
        201,
        "cron-syntax",
        _E,
        _N,
        "A field of the cron expression cannot be read.",
        'cron: "61 * * * *"',
        'cron: "1 * * * *"',
    ),
    _rule(202, "field-count", _E, _N, "A cron expression has five fields.", 'cron: "0 0 3 * * *"', 'cron: "0 3 * * *"'),
    _rule(
        203,
        "unsupported-descriptor",
        _E,
        _N,
        "Only the calendar descriptors are known.",
        'cron: "@every 6h"',
        "every: 6h",
    ),
    _rule(
        204,
        "embedded-timezone",
        _E,
        _S,
        "The zone has a key of its own.",
        'cron: "TZ=UTC 0 3 * * *"',
        'cron: "0 3 * * *"',
    ),
    _rule(205, "never-fires", _E, _N, "No date matches the expression.", 'cron: "0 0 30 2 *"', 'cron: "0 0 28 2 *"'),
    _rule(
        206, "rarely-fires", _W, _N, "Years can pass between two firings.", 'cron: "0 0 29 2 *"', 'cron: "0 0 1 3 *"'
    ),
    _rule(
        207,
        "day-or-day",
        _W,
        _U,
        "With both day fields set either one fires the job.",
        'cron: "0 9 1 * 1"',
        'cron: "0 9 * * 1"',
    ),
    _rule(
        208, "uneven-step", _W, _U, "The step does not divide the field.", 'cron: "*/7 * * * *"', 'cron: "*/6 * * * *"'
    ),
    _rule(
        209,
        "step-too-wide",
        _W,
        _U,
        "The step is as wide as the field, or wider.",
        'cron: "*/60 * * * *"',
        'cron: "0 * * * *"',
    ),
    _rule(
        210,
        "skips-short-months",
        _W,
        _N,
        "The day is missing in short months.",
        'cron: "0 0 31 * *"',
        'cron: "0 0 1 * *"',
    ),
    _rule(
        211,
        "max-with-step",
        _W,
        _U,
        "A step from the last value fires once.",
        'cron: "59/15 * * * *"',
        'cron: "*/15 * * * *"',
    ),
    _rule(
        212,
        "equal-range",
        _W,
        _U,
        "A range of one value is read as all values elsewhere.",
        'cron: "5-5 * * * *"',
        'cron: "5 * * * *"',
    ),
    _rule(213, "wrapped-range", _E, _S, "A range runs upwards.", 'cron: "0 22-2 * * *"', 'cron: "0 22-23,0-2 * * *"'),
    _rule(
        214, "non-contract-syntax", _E, _N, "L, W, #, ? and H are not cron.", 'cron: "0 0 L * *"', 'cron: "0 0 28 * *"'
    ),
    _rule(215, "every-minute", _I, _N, "It fires every minute."),
    _rule(216, "not-canonical", _I, _S, "There is a plainer spelling.", 'cron: "*/1 * * * 7"', 'cron: "* * * * 0"'),
    _rule(
        301,
        "unknown-timezone",
        _E,
        _U,
        "The zone is not in the IANA database.",
        "timezone: Europe/Rom",
        "timezone: Europe/Rome",
    ),
    _rule(
        302, "local-timezone", _E, _N, "Local means another place on every machine.", "timezone: Local", "timezone: UTC"
    ),
    _rule(
        303, "old-zone-name", _I, _S, "The zone has a newer name.", "timezone: Asia/Calcutta", "timezone: Asia/Kolkata"
    ),
    _rule(
        304,
        "fixed-offset-name",
        _W,
        _N,
        "The name is a fixed offset, and its sign may be reversed.",
        "timezone: Etc/GMT+2",
        "timezone: Europe/Rome",
    ),
    _rule(305, "dst-gap", _W, _N, "A clock change skips the time.", 'cron: "30 2 * * *"', "dst: {gap: run}"),
    _rule(306, "dst-overlap", _W, _N, "A clock change repeats the time.", 'cron: "30 2 * * *"', "dst: {fold: first}"),
    _rule(307, "tzdata-mismatch", _W, _N, "Workers reckon with other zone data than this machine."),
    _rule(
        401,
        "handler-format",
        _E,
        _N,
        "A handler is module.function, or a path for the exec runtime.",
        "handler: jobs/run.py",
        "handler: jobs.run.handler",
    ),
    _rule(402, "handler-module-missing", _E, _N, "The app has no such module or file."),
    _rule(403, "handler-name-missing", _E, _U, "The module defines no such name."),
    _rule(
        404, "handler-not-callable", _E, _N, "The name cannot be called with one event, or the file cannot be executed."
    ),
    _rule(405, "handler-not-static", _I, _N, "Reading alone cannot tell whether the handler exists."),
    _rule(406, "handler-shadows-stdlib", _W, _N, "The handler's module hides one of Python's own."),
    _rule(407, "handler-syntax-error", _E, _N, "The handler's file does not parse."),
    _rule(
        501,
        "timeout-exceeds-gap",
        _W,
        _N,
        "A run may still be busy when the next one starts.",
        "timeout: 10m  # with */5",
        "timeout: 4m",
    ),
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
    _rule(
        703,
        "bad-schedule-name",
        _E,
        _U,
        "The name holds characters that names may not have.",
        "name: Nightly",
        "name: nightly",
    ),
    _rule(704, "lookalike-names", _W, _N, "Two names differ in punctuation only.", "name: a-b  # and a_b", ""),
    _rule(705, "looks-like-rename", _W, _N, "A removed and a new schedule look like one renamed."),
    _rule(706, "stray-directory", _I, _N, "A directory among the apps has no template."),
    _rule(707, "symlinked-app", _E, _N, "A link leaves the apps directory."),
    _rule(901, "unused-ignore", _W, _S, "The comment silences nothing."),
    _rule(
        902,
        "ignore-without-reason",
        _I,
        _N,
        "Say why.",
        "# relay: ignore[RLY207]",
        "# relay: ignore[RLY207] both days are wanted",
    ),
    _rule(903, "unknown-rule-code", _E, _N, "No rule has this code.", "# relay: ignore[RLY999] x", ""),
    _rule(904, "malformed-ignore", _W, _N, "The comment is not of the form # relay: ignore[CODE] reason."),
)

BY_CODE: dict[str, Rule] = {rule.code: rule for rule in RULES}
