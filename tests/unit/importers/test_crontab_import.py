"""Every line of a crontab becomes a schedule that fires as cron fires it, or a note that says why not."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from relayctl.core.carried import Import
from relayctl.core.cron import Cron
from relayctl.core.names import AppName
from relayctl.core.problem import Severity
from relayctl.importers.appfiles import app_files
from relayctl.importers.crontab import read_crontab
from relayctl.templates.load import check_text

NOW = datetime(2026, 9, 29, 10, 15, tzinfo=UTC)


def _errors(found: Import) -> list[str]:
    files = app_files(found, "old")
    if not files:
        return []
    _, problems, count = check_text(files["template.yaml"].encode(), "template.yaml", AppName("old"), None, NOW)
    assert count == len(found.jobs)
    return [f"{problem.code} {problem.message}" for problem in problems if problem.is_error]


def _run(found: Import, tmp_path: Path, place: int = 0) -> str:
    script = tmp_path / "script"
    script.write_text(found.jobs[place].script)
    script.chmod(0o755)
    done = subprocess.run(
        [script],
        input='{"source": "relay.schedule"}',
        capture_output=True,
        text=True,
        timeout=10,
        env={"HOME": str(tmp_path)},
    )
    return done.stdout


def test_a_line_is_a_schedule() -> None:
    found = read_crontab("# Nightly backup\n30 2 * * * /opt/bin/backup.sh --full\n", timezone="Europe/Rome")
    [job] = found.jobs
    assert (job.name, job.cron, job.timezone) == ("backup", "30 2 * * *", "Europe/Rome")
    assert (job.description, job.line) == ("Nightly backup", 2)
    assert found.is_complete and not found.notes and not _errors(found)


@pytest.mark.parametrize("when", ["*/5 * * * *", "@hourly", "*/30 8-18 * * 1-5", "* * * * *"])
def test_what_is_imported_needs_no_second_look(when: str) -> None:
    files = app_files(read_crontab(f"{when} /opt/bin/poll.sh\n"), "old")
    _, problems, _ = check_text(files["template.yaml"].encode(), "template.yaml", AppName("old"), None, NOW)
    assert [problem.code for problem in problems if problem.severity is not Severity.INFO] == []


@pytest.mark.parametrize(
    "above",
    [
        "# m h  dom mon dow   command",
        "# minute hour mday month wday command",
        "#----------",
        "#0 3 * * * /opt/bin/old.sh",
        "# @daily /opt/bin/old.sh",
        "# *  *  *  *  * user-name  command to be executed",
        "# |  |  |  |  .---- day of week (0 - 6)",
    ],
)
def test_a_comment_that_tells_nothing_of_the_line_is_no_description(above: str) -> None:
    assert [job.description for job in read_crontab(f"{above}\n5 4 * * * x\n").jobs] == [""]


def test_a_user_may_be_followed_by_tabs(tmp_path: Path) -> None:
    found = read_crontab("25 6\t* * *\troot\ttest -n x && echo on\n", is_system=True)
    assert [note.message for note in found.notes] == [
        'jobs of "root" run as the user of the worker: a worker never changes users'
    ]
    assert _run(found, tmp_path) == "on\n"


@pytest.mark.parametrize(
    ("command", "is_told"),
    [
        ("PASSWORD=hunter2hunter2 /opt/run", True),
        ("/opt/run --token=ghp_abcdefghijklmnopqrstuvwxyz0123456789", True),
        ("PASSWORD=$DB_PASSWORD /opt/run", False),
        ('PASSWORD="$(cat /run/x)" /opt/run', False),
        ("/opt/run --level=debug", False),
    ],
)
def test_a_secret_in_a_command_is_told_and_not_repeated(command: str, is_told: bool) -> None:
    notes = [note.message for note in read_crontab(f"@daily {command}\n").notes]
    assert any("looks like a secret" in note for note in notes) is is_told
    assert not any("hunter2" in note or "ghp_" in note for note in notes)


def test_a_lock_file_is_no_name() -> None:
    assert [job.name for job in read_crontab("@daily flock -n /tmp/x.lock /opt/sync.sh\n").jobs] == ["sync"]


def test_cron_neither_repeats_nor_catches_up() -> None:
    [job] = read_crontab("@daily x").jobs
    assert (job.retries, job.catch_up, job.overlap) == (0, "none", "allow")


def test_variables_hold_for_the_lines_below_them(tmp_path: Path) -> None:
    found = read_crontab("A=one\n* * * * * echo $A$B\nA = 'two words'\nB=x\n* * * * * echo $A $B\n")
    assert _run(found, tmp_path) == "one\n"
    assert _run(found, tmp_path, 1) == "two words x\n"


def test_the_zone_is_that_of_the_lines_above() -> None:
    found = read_crontab("0 1 * * * a\nCRON_TZ=Asia/Tokyo\n0 1 * * * b\nCRON_TZ=Nowhere/City\n0 1 * * * c\n")
    assert [(job.name, job.timezone) for job in found.jobs] == [("a", "UTC"), ("b", "Asia/Tokyo")]
    assert [(note.line, note.is_lost) for note in found.notes] == [(5, True)]


def test_what_stands_behind_a_percent_sign_is_input(tmp_path: Path) -> None:
    found = read_crontab(r"0 9 * * * cat; echo \%%first%second")
    assert _run(found, tmp_path) == "first\nsecond\n%\n"


def test_without_input_a_command_reads_nothing(tmp_path: Path) -> None:
    assert _run(read_crontab("* * * * * cat; pwd"), tmp_path) == f"{tmp_path}\n"


def test_a_shell_is_kept() -> None:
    assert read_crontab("SHELL=/bin/bash\n* * * * * [[ -e x ]]").jobs[0].script.startswith("#!/bin/bash\n")


def test_a_secret_is_not_repeated() -> None:
    found = read_crontab("DB_PASSWORD=hunter2hunter2\n* * * * * dump\n")
    assert found.secrets == {"DB_PASSWORD": "db-password"}
    assert "hunter2" not in repr(found) + repr(app_files(found, "old"))


@pytest.mark.parametrize("odd", ["\x7f", "\x80", "\ufffe", "\u2028", "\x1b[31m", "\u202e", "\x85"])
def test_a_comment_brings_nothing_that_a_template_may_not_hold(odd: str) -> None:
    found = read_crontab(f"# a{odd} b\n0 3 * * * /x\n")
    assert found.jobs[0].description.isprintable() and not _errors(found)


@pytest.mark.parametrize("name", ["_TOKEN", "__API_TOKEN", "X" * 300 + "_TOKEN"])
def test_a_reference_is_legal_whatever_the_variable_is_called(name: str) -> None:
    found = read_crontab(f"{name}=s3cr3t\n0 3 * * * /x\n")
    assert name in found.secrets and not _errors(found)


def test_a_second_value_of_a_secret_is_a_loss() -> None:
    text = "TOKEN=one\n0 3 * * * /a\nTOKEN=two\n0 4 * * * /b\n"
    [note] = [note for note in read_crontab(text).notes if note.is_lost]
    assert note.line == 3 and "two" not in note.message
    assert read_crontab(text.replace("two", "one")).is_complete


def test_a_secret_stays_for_the_lines_above_what_replaces_it() -> None:
    assert read_crontab("TOKEN=one\n0 3 * * * /a\nTOKEN=\n0 4 * * * /b\n").secrets == {"TOKEN": "token"}
    assert not read_crontab("TOKEN=one\nTOKEN=\n0 4 * * * /b\n").secrets


def test_a_backslash_at_the_end_of_a_line_is_itself(tmp_path: Path) -> None:
    assert _run(read_crontab("0 3 * * * echo hi \\"), tmp_path) == "hi \\\n"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("@reboot start", "@reboot"),
        ("* * * * *", "five fields and a command"),
        ("nonsense", "five fields and a command"),
        ("0 0 30 2 * x", "never fires"),
        ("61 * * * * x", "minute"),
        ("* * * * * # nothing", "no command"),
        ("* * * * * %only input", "no command"),
    ],
)
def test_what_cannot_be_carried_is_named(line: str, reason: str) -> None:
    found = read_crontab(f"\n{line}\n* * * * * good\n")
    assert [job.name for job in found.jobs] == ["good"]
    [note] = found.notes
    assert note.line == 2 and note.is_lost and reason in note.message
    assert not found.is_complete


def test_a_system_crontab_has_users() -> None:
    found = read_crontab("17 * * * * root run-parts /etc/cron.hourly\n", is_system=True)
    assert "run-parts /etc/cron.hourly" in found.jobs[0].script and found.jobs[0].name == "run-parts"
    assert [("root" in note.message, note.is_lost) for note in found.notes] == [(True, False)]


def test_a_random_delay_is_jitter_where_it_is_short_enough() -> None:
    found = read_crontab("RANDOM_DELAY=10\n@hourly a\n*/5 * * * * b\n")
    assert [job.jitter for job in found.jobs] == ["10m", ""]
    assert [note.line for note in found.notes] == [3]


def test_chance_is_settled_once() -> None:
    [first] = read_crontab("0~29 4 * * * a").jobs
    [again] = read_crontab("0~29 4 * * * a").jobs
    assert first.cron == again.cron and 0 <= int(first.cron.split()[0]) <= 29


def test_a_wrapped_range_fires_as_it_was_meant() -> None:
    [job] = read_crontab("0 22-2 * * * a").jobs
    hours = {at.hour for at in Cron.parse(job.cron).between(NOW, NOW + timedelta(days=1))}
    assert hours == {22, 23, 0, 1, 2}


_field = st.sampled_from(["*", "*/5", "0", "7", "1-3", "5,9", "0~5", "99", "x", "*/7"])
_command = st.text(st.characters(exclude_characters="\r\n"), max_size=40)
_line = st.one_of(
    st.tuples(_field, _field, _field, _field, _field, _command).map(" ".join),
    st.tuples(st.sampled_from(["@daily", "@reboot", "@every 90s", "@odd"]), _command).map(" ".join),
    st.tuples(st.sampled_from(["A", "MAILTO", "TZ", "CRON_TZ", "SHELL", "RANDOM_DELAY", "MY_TOKEN"]), _command).map(
        "=".join
    ),
    _command,
)


@given(st.lists(_line, max_size=6), st.booleans())
@example(["* * * * 0~5 \ud800"], False)
@settings(max_examples=120, deadline=None)
def test_any_crontab_is_accounted_for_and_its_output_has_no_error(lines: list[str], is_system: bool) -> None:
    found = read_crontab("\n".join(lines), is_system=is_system)
    told = {job.line for job in found.jobs} | {note.line for note in found.notes}
    for number, line in enumerate(lines, 1):
        bare = line.replace("\0", "").strip(" \t")
        if bare and not bare.startswith("#") and "=" not in bare:
            assert number in told, line
    assert _errors(found) == []
    assert len({job.name for job in found.jobs}) == len(found.jobs)
