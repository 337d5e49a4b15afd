"""The lint rules beyond the negative cases: what they leave alone, the numbers they state, ignores, and secrets."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support.templates import HABITS, MODELINE, NOW, SERVICE, checked, schedule

from relayctl.core.cron import Cron, Every
from relayctl.core.names import AppName
from relayctl.core.problem import Problem, Severity
from relayctl.templates.deprecation import DeprecatedKey
from relayctl.templates.gaps import shortest_gap
from relayctl.templates.load import check_text
from relayctl.templates.rules.engine import Manner
from relayctl.templates.rules.registry import BY_CODE, RULES
from relayctl.templates.secretshapes import SecretKind, secret_in


def _warned(text: str) -> list[str]:
    return [problem.code for problem in checked(MODELINE + text)[1] if problem.severity is not Severity.INFO]


def _remarks(text: str) -> list[str]:
    return [problem.code for problem in checked(MODELINE + text)[1] if problem.severity is Severity.INFO]


@pytest.mark.parametrize(
    ("expression", "codes"),
    [
        ("0 3 * * *", []),
        ("*/15 * * * *", []),
        ("@daily", []),
        ("0 0 */1 * 1", []),
        ("0 0 28-31 * *", []),
        ("0 0 1,15 * *", []),
        ("0 0 31 1,3 *", []),
        ("0 0 30 * *", ["RLY210"]),
        ("0 0 29 * *", ["RLY210"]),
        ("0 */5 * * *", ["RLY208"]),
        ("0 */24 * * *", ["RLY209"]),
        ("*/40 * * * *", ["RLY208"]),
        ("0-30/7 * * * *", []),
        ("0 0 * * 7-7", ["RLY212"]),
        ("0 0 * Jan-Jan *", ["RLY212"]),
        ("50/10 * * * *", ["RLY211"]),
        ("0 0 */2 * 1", ["RLY207", "RLY208"]),
        ("0 0 31 2 *", ["RLY205"]),
        ("0 0 31 4,6,9,11 *", ["RLY205"]),
        ("0 0 29 2 1", ["RLY207"]),
        ("0 10 1-7 * 0", ["RLY207"]),
    ],
)
def test_cron(expression: str, codes: list[str]) -> None:
    assert _warned(schedule(f'cron: "{expression}"')) == codes


@pytest.mark.parametrize(
    ("expression", "zone", "lines", "codes"),
    [
        ("30 2 * * *", "Europe/Rome", (), ["RLY305", "RLY306"]),
        ("30 2 * * *", "Europe/Rome", ("dst: {gap: run, fold: first}",), []),
        ("30 2 * * *", "Europe/Rome", ("enabled: false",), []),
        ("30 2 * * *", "UTC", (), []),
        ("30 2 * * *", "Asia/Tokyo", (), []),
        ("30 12 * * *", "Europe/Rome", (), []),
        ("*/10 * * * *", "Europe/Rome", (), []),
        ("@hourly", "Europe/Rome", (), []),
        ("0 0 * * *", "America/Santiago", (), ["RLY305"]),
        ("0 3 * * *", "EST", (), ["RLY304"]),
        ("0 3 * * *", "Etc/UTC", (), []),
    ],
)
def test_zones(expression: str, zone: str, lines: tuple[str, ...], codes: list[str]) -> None:
    assert _warned(schedule(f'cron: "{expression}"', f"timezone: {zone}", *lines)) == codes


@pytest.mark.parametrize(("old", "new"), [("Asia/Calcutta", "Asia/Kolkata"), ("US/Eastern", "America/New_York")])
def test_old_zone_names(old: str, new: str) -> None:
    _, problems = checked(MODELINE + schedule('cron: "0 12 * * *"', f"timezone: {old}"))
    assert [(problem.code, new in problem.help) for problem in problems] == [("RLY303", True)]


def test_remarks() -> None:
    assert _remarks(schedule('cron: "* * * * *"')) == ["RLY215"]
    assert _remarks(schedule('cron: "*/1 * * * 7"')) == ["RLY216", "RLY216"]
    assert _remarks(f"x-a: &a 1\n{SERVICE}") == ["RLY016"]
    assert [problem.code for problem in checked(SERVICE)[1]] == ["RLY111"]


@pytest.mark.parametrize(
    ("trigger", "gap"),
    [
        (Every(seconds=90), timedelta(seconds=90)),
        (Cron.parse("* * * * *"), timedelta(minutes=1)),
        (Cron.parse("*/7 * * * *"), timedelta(minutes=4)),
        (Cron.parse("0,59 9-17 * * *"), timedelta(minutes=1)),
        (Cron.parse("0 3 * * *"), timedelta(days=1)),
        (Cron.parse("30 2 * * *", "Europe/Rome"), timedelta(hours=23, minutes=30)),
        (Cron.parse("0 23,1 * * *"), timedelta(hours=2)),
        (Cron.parse("0 0 1 * *"), timedelta(days=28)),
        (Cron.parse("@hourly", "Europe/Rome"), timedelta(hours=1)),
        (Cron.parse("0 1,4 * * *", "America/New_York"), timedelta(hours=2)),
        (Cron.parse("0 0 30 2 *"), None),
    ],
)
def test_shortest_gap(trigger: Cron | Every, gap: timedelta | None) -> None:
    assert shortest_gap(trigger) == gap


def _habits(*lines: str, name: str = "nightly") -> list[Problem]:
    _, problems, _ = check_text(
        (MODELINE + schedule(*lines, name=name)).encode(), "apps/sample/template.yaml", AppName("sample"), None, NOW
    )
    return [problem for problem in problems if problem.code in HABITS]


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        (("cron: '0 3 * * *'", "timeout: 9s"), ["RLY504"]),
        (("cron: '@daily'", "timeout: 9s"), ["RLY504"]),
        (("cron: '0 3 * * *'", "timeout: 9s", "jitter: 5m"), []),
        (("cron: '0 3 * * *'", "timeout: 9s", "enabled: false"), []),
        (("cron: '0,30 3 * * *'", "timeout: 9s"), []),
        (("cron: '5 3 * * *'",), ["RLY506"]),
        (("cron: '5 3 * * *'", "timeot: 9s"), []),
        (("cron: '*/10 * * * *'", "timeout: 9s"), ["RLY508"]),
        (("cron: '*/15 * * * *'", "timeout: 9s"), []),
        (("cron: '0-30/5 3 * * *'", "timeout: 9s"), ["RLY508"]),
        (("every: 30s", "timeout: 9s"), ["RLY508"]),
        (("every: 30s", "timeout: 9s", "catch_up: latest"), []),
        (("every: 11m", "timeout: 9s"), []),
    ],
)
def test_habits(lines: tuple[str, ...], codes: list[str]) -> None:
    assert [problem.code for problem in _habits(*lines)] == codes


def test_the_minute_offered_follows_from_the_name() -> None:
    offered = {}
    for name in ("nightly", "hourly", "weekly"):
        (problem,) = _habits("cron: '0 3 * * 1'", "timeout: 9s", name=name)
        assert problem == _habits("cron: '0 3 * * 1'", "timeout: 9s", name=name)[0]
        assert problem.fix is not None
        assert not problem.fix.is_safe
        offered[name] = problem.fix.edits[0].text
    assert len(set(offered.values())) == len(offered)
    assert all(1 <= int(text.split()[0]) <= 59 and text.endswith(" 3 * * 1") for text in offered.values())


def test_an_outage_is_counted() -> None:
    (problem,) = _habits("cron: '*/10 * * * *'", "timeout: 9s")
    assert "5 of 6 firings" in problem.message


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("# yaml-language-server: $schema=urn:relayctl:schema:template:1.1", ["RLY109"]),
        ("# $schema: https://relayctl.example/schema/v2/template.json", ["RLY109"]),
        ("# yaml-language-server: $schema=https://relayctl.example/schema/v1.0/template.json", []),
        ("# yaml-language-server: $schema=../v9/of/mine/template.schema.json", []),
        ("# a remark on $schema urn:relayctl:schema:template:9.9", []),
        ("x-note: '# $schema: urn:relayctl:schema:template:9.9'", []),
    ],
)
def test_schema_versions(line: str, codes: list[str]) -> None:
    assert _warned(f"{line}\n{SERVICE}") == codes


def test_a_deprecated_key_is_announced_with_its_end_and_renamed() -> None:
    """No key is deprecated yet, so one that stays plays the part."""
    key = DeprecatedKey(level="schedules", name="description", since="1.1", removed_in="2.0", instead="x_title")
    gone = DeprecatedKey(level="", name="concurrency", since="1.1", removed_in="2.0")
    text = MODELINE + "concurrency: 2\n" + schedule("cron: '5 3 * * *'", "description: old", "timeout: 9s")
    manner = Manner(deprecated_keys=(key, gone))
    name = AppName("sample")
    app, problems, _ = check_text(text.encode(), "apps/sample/template.yaml", name, None, NOW, manner=manner)
    assert app is not None
    assert [problem.code for problem in problems] == ["RLY110", "RLY110"]
    top, inner = problems
    assert (top.fix, top.help) == (None, "remove it")
    assert "from schema version 2.0 on" in inner.message
    assert inner.fix is not None
    assert inner.fix.is_safe
    assert inner.fix.edits[0].text == "x_title"


def test_remarks_on_habits_are_not_for_workers() -> None:
    app, problems, _ = check_text(
        (MODELINE + schedule("cron: '0 3 * * *'")).encode(), "template.yaml", AppName("sample"), None, None
    )
    assert app is not None
    assert problems == []


def test_an_ignore_silences_its_line_only() -> None:
    odd = '"0 9 1 * 1"'
    good = "# relay: ignore[RLY207] both days are wanted"
    assert _warned(schedule(f"cron: {odd}  {good}")) == []
    assert _warned(schedule(good, f"cron: {odd}")) == []
    assert _warned(schedule(good, "# another remark", f"cron: {odd}")) == []
    assert _warned(schedule(f"cron: {odd}", good)) == ["RLY207", "RLY901"]
    assert _warned(schedule(f"cron: {odd}", f'description: "{good}"')) == ["RLY207"]
    assert _remarks(schedule(f"cron: {odd}  # relay: ignore[RLY207]")) == ["RLY902"]


def test_what_cannot_be_ignored() -> None:
    text = schedule('cron: "0 0 30 2 *"  # relay: ignore[RLY205] I know')
    assert _warned(text) == ["RLY205", "RLY904"]
    secret = "ghp_" + "Ab1" * 12
    assert _warned(f"{SERVICE}env:\n  A: {secret}  # relay: ignore[RLY601] fine\n") == ["RLY601", "RLY904"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("RLY205", "is an error in any case"),
        ("RLY008", "keeps the meaning"),
        ("RLY604", "a secret"),
        ("RLY507", "relayctl plan"),
        ("RLY705", "relayctl plan"),
    ],
)
def test_why_a_rule_cannot_be_ignored(code: str, words: str) -> None:
    _, problems = checked(f"{MODELINE}{SERVICE}concurrency: 2  # relay: ignore[{code}] x\n")
    assert [problem.code for problem in problems] == ["RLY904"]
    assert words in problems[0].detail


@pytest.mark.parametrize("comment", ["# relay: ignore", "# relay:ignore[RLY207] x", "# relay: ignore[] x"])
def test_a_malformed_ignore_is_said(comment: str) -> None:
    assert _warned(f"{SERVICE}concurrency: 2  {comment}\n") == ["RLY904"]


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("X", "AKIA" + "ABCDEFGHIJKLMNOP", SecretKind.TOKEN),
        ("X", "xoxb-" + "1234567890-abcdef", SecretKind.TOKEN),
        ("X", "sk_live_" + "a1b2c3d4e5f6", SecretKind.TOKEN),
        ("X", "https://user:hunter22@host/x", SecretKind.URL),
        ("X", "redis://:hunter22@host/0", SecretKind.URL),
        ("X", "-----BEGIN PRIVATE KEY-----\nabc", SecretKind.KEY),
        ("DB_PASSWORD", "hunter22", SecretKind.NAMED),
        ("apiKey", "9f8a7c6b5d4e3f2a1b0c", SecretKind.NAMED),
        ("SECRET_TOKEN", "q8Zr2LmXw91TbYpK", SecretKind.NAMED),
        ("API_URL", "https://api.example.com/v1", None),
        ("URL", "https://user@host/x", None),
        ("URL", "https://user:${PASSWORD}@host/x", None),
        ("TOKEN_URL", "https://login.example.com/oauth/token", None),
        ("DB_PASSWORD", "${DB_PASSWORD}", None),
        ("DB_PASSWORD", "changeme", None),
        ("PASSWORD_FILE", "/run/secrets/db", None),
        ("SECRET_NAME", "my-database-secret", None),
        ("AUTH_TOKEN", "short", None),
        ("COMMIT", "9f8a7c6b5d4e3f2a1b0c9f8a7c6b5d4e3f2a1b0c", None),
        ("X", "cron-job-for-the-month", None),
    ],
)
def test_secret_shapes(name: str, text: str, kind: SecretKind | None) -> None:
    assert secret_in(name, text) is kind


def test_a_secret_is_shown_nowhere() -> None:
    secret = "ghp_" + "Ab1" * 12
    for text in (
        f"env:\n  A: {secret}\n  retries: 2\nretries: 2\n",
        f"env: {{A: {secret}, B: 010}}\n",
        f"env: [{secret}]\n",
        f"secrets: {{A: {secret}}}\n",
        f"token: {secret}\n",
        f"x-a: {secret}\n",
        f"concurrency: {secret}\n",
        f"# {secret}\nconcurrency: 0\n",
        f"concurrency: 0 # {secret}\n",
        f"runtime: {secret}\n",
    ):
        _, problems = checked(SERVICE + text)
        assert problems
        assert secret[4:16] not in repr(problems), text


@pytest.mark.parametrize(
    "line",
    [
        "env: {DB: VALUE}",
        "env: VALUE",
        "dst: {env: VALUE}",
        "Environment: {DB: VALUE}",
        "secret: {DB: VALUE}",
        "input: {password: VALUE, x: .inf}",
        "input: {password: VALUE}}",
        "env: {DB: 'VALUE}",
        "password: VALUE",
    ],
)
def test_a_value_beside_a_mistake_is_hidden_wherever_it_stands(line: str) -> None:
    plain = "hunter2-s3cret"  # nothing in its shape tells that it is one
    _, problems = checked(schedule('cron: "0 3 * * *"', line.replace("VALUE", plain)))
    assert any(problem.excerpt for problem in problems)
    assert plain not in repr([(each.message, each.help, each.excerpt) for each in problems])


@pytest.mark.parametrize("words", ["--password, VALUE", "--token=VALUE", "env, DB_PASSWORD=VALUE"])
def test_a_secret_in_a_command_is_hidden(words: str) -> None:
    plain = "hunter2-s3cret"
    command = words.replace("VALUE", plain)
    _, problems = checked(f"runtime: python\nservices:\n  - {{name: web, command: [./serve, {command}], prot: 3}}\n")
    assert any(problem.excerpt for problem in problems)
    assert plain not in repr([(each.message, each.help, each.excerpt) for each in problems])


def test_every_rule_is_described() -> None:
    assert len(BY_CODE) == len(RULES)
    for rule in RULES:
        assert rule.summary.endswith(".")
        assert rule.name == rule.name.lower()


def test_without_a_clock_no_ignore_is_called_unused() -> None:
    text = schedule('cron: "30 2 * * *"  # relay: ignore[RLY305,RLY306] known', "timezone: Europe/Rome")
    assert checked(MODELINE + text, now=None)[1] == []
    assert _warned(text) == []


@pytest.mark.parametrize("text", ["-eyJ" * 200_000, "a" * 900_000 + "://x", "1_" * 400_000 + "x", "a-" * 400_000])
def test_a_long_value_takes_no_time_to_speak_of(text: str) -> None:
    app, _ = checked(f"{MODELINE}{SERVICE}env: {{A_TOKEN: x{text}}}\n")
    assert app is None or app.env[0][1].endswith(text[-4:])


@pytest.mark.parametrize(("overlap", "codes"), [("allow", ["RLY501"]), ("skip", []), ("queue", [])])
def test_runs_that_are_kept_apart_cannot_meet(overlap: str, codes: list[str]) -> None:
    text = f"runtime: python\n{SERVICE}schedules:\n  - name: a\n    handler: jobs.run\n    every: 5m\n    timeout: 1h\n"
    assert _warned(f"{text}    overlap: {overlap}\n") == codes
