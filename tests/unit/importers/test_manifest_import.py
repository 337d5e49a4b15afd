"""CronJobs and workflows: what they run is carried, what only their own platform has is named with its line."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayctl.core.carried import Import
from relayctl.core.names import AppName
from relayctl.importers.appfiles import app_files
from relayctl.importers.github import read_github
from relayctl.importers.k8s import read_k8s
from relayctl.templates.load import check_text

NOW = datetime(2026, 9, 29, 10, 15, tzinfo=UTC)

CRONJOB = """\
apiVersion: batch/v1
kind: CronJob
metadata:
  name: db-backup
spec:
  schedule: "15 3 * * *"
  timeZone: Europe/Vienna
  concurrencyPolicy: Forbid
  suspend: true
  jobTemplate:
    spec:
      backoffLimit: 2
      activeDeadlineSeconds: 600
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: dump
              image: registry.example/dump:7
              command: ["/bin/echo", "$HOME", "it's"]
              args: ["--all"]
              env:
                - {name: LEVEL, value: "3"}
                - name: PGPASSWORD
                  valueFrom: {secretKeyRef: {name: db, key: password}}
                - name: NODE
                  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
          volumes: []
"""

WORKFLOW = """\
name: Nightly
on:
  push:
  schedule:
    - cron: "0 4 * * *"
    - cron: "30 5 * * 1-5"
jobs:
  report:
    runs-on: ubuntu-latest
    timeout-minutes: 10
    env:
      TOKEN: ${{ secrets.REPORT_TOKEN }}
      REGION: eu
    steps:
      - uses: actions/checkout@v4
      - run: |
          cd /
          echo "$REGION"
      - run: pwd
        working-directory: /tmp
  publish:
    runs-on: ubuntu-latest
    steps:
      - uses: some/action@v1
"""


def _errors(found: Import) -> list[str]:
    files = app_files(found, "old")
    if not files:
        return []
    _, problems, _ = check_text(files["template.yaml"].encode(), "template.yaml", AppName("old"), None, NOW)
    return [problem.message for problem in problems if problem.is_error]


def _output(script: str, tmp_path: Path) -> str:
    path = tmp_path / "script"
    path.write_text(script)
    path.chmod(0o755)
    return subprocess.run([path], input="{}", capture_output=True, text=True, timeout=10, env={"HOME": "/"}).stdout


def test_a_cron_job(tmp_path: Path) -> None:
    found = read_k8s(CRONJOB)
    [job] = found.jobs
    assert (job.name, job.cron, job.timezone) == ("db-backup", "15 3 * * *", "Europe/Vienna")
    assert (job.overlap, job.retries, job.timeout, job.is_enabled) == ("skip", 2, timedelta(minutes=10), False)
    assert _output(job.script, tmp_path) == "$HOME it's --all\n"
    assert "export LEVEL=3\n" in job.script
    assert found.secrets == {"PGPASSWORD": "db-password"}
    assert found.is_complete and _errors(found) == []
    told = {note.line: note.message for note in found.notes}
    assert "the image registry.example/dump:7" in told[19]
    assert "NODE is not carried: fieldRef" in told[26]
    assert told[28] == "volumes is not carried"


def test_lines_count_through_all_documents_and_lists() -> None:
    found = read_k8s(f"kind: Service\n---\nkind: CronJobList\nitems:\n- {CRONJOB.replace(chr(10), chr(10) + '  ')}")
    assert [job.line for job in found.jobs] == [10]
    assert found.notes[0].line == 1


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('              command: ["/bin/echo", "$HOME", "it\'s"]\n', "", "what its image says"),
        ('"15 3 * * *"', '"61 3 * * *"', "minute"),
        ("Europe/Vienna", "Europe/Wien", "IANA"),
        ('  schedule: "15 3 * * *"\n', "", "no schedule"),
        ("kind: CronJob", "kind: CronJob\nkind: x", "not read"),
        ("db-backup", "{{ .Values.name }}x", "not read"),
    ],
)
def test_what_cannot_be_carried_is_lost(old: str, new: str, reason: str) -> None:
    found = read_k8s(CRONJOB.replace(old, new))
    assert found.jobs == []
    assert any(note.is_lost and reason in note.message for note in found.notes)
    assert app_files(found, "old") == {}


def test_a_replaced_run_is_skipped_instead_and_told() -> None:
    found = read_k8s(CRONJOB.replace("Forbid", "Replace"))
    assert found.jobs[0].overlap == "skip"
    assert any("concurrencyPolicy Replace" in note.message for note in found.notes)


def test_a_workflow(tmp_path: Path) -> None:
    found = read_github(WORKFLOW, stem="nightly")
    assert [(job.name, job.cron) for job in found.jobs] == [
        ("nightly-report", "0 4 * * *"),
        ("nightly-report-2", "30 5 * * 1-5"),
    ]
    assert {job.timeout for job in found.jobs} == {timedelta(minutes=10)}
    assert _output(found.jobs[0].script, tmp_path) == "eu\n/tmp\n"
    assert found.secrets == {"TOKEN": "report-token"}
    assert not found.is_complete and _errors(found) == []
    [lost] = [note for note in found.notes if note.is_lost]
    assert (lost.line, "some/action@v1 runs only on GitHub" in lost.message) == (24, True)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('echo "$REGION"', 'echo "${{ github.ref }}"', "${{ … }}"),
        ("timeout-minutes: 10", "strategy: {matrix: {a: [1]}}", "strategy"),
        ("working-directory: /tmp", "shell: pwsh", "pwsh"),
        ("working-directory: /tmp", "if: always()", "if of a step"),
    ],
)
def test_what_only_github_has_is_named(old: str, new: str, reason: str) -> None:
    found = read_github(WORKFLOW.replace(old, new))
    assert found.jobs == []
    assert any(reason in note.message for note in found.notes)


def test_two_secrets_of_one_name_are_told() -> None:
    cron_job = CRONJOB.replace("{name: db, key: password}", "{name: other, key: password}").replace("db-backup", "two")
    found = read_k8s(f"{CRONJOB}---\n{cron_job}")
    assert found.secrets == {"PGPASSWORD": "db-password"}
    [note] = [note for note in found.notes if note.is_lost]
    assert "other-password" in note.message and note.line > CRONJOB.count("\n")


def test_a_step_that_ends_in_a_backslash_ends_there(tmp_path: Path) -> None:
    found = read_github(
        "on: {schedule: [{cron: '0 3 * * *'}]}\njobs:\n  a:\n    steps:\n      - run: |\n          echo hi \\\n"
    )
    script = tmp_path / "script"
    script.write_text(found.jobs[0].script)
    assert subprocess.run(["bash", script], capture_output=True, text=True, timeout=10).stdout == "hi\n"


def test_a_failing_step_ends_the_run(tmp_path: Path) -> None:
    text = WORKFLOW.replace("          cd /\n", "          false\n")
    assert _output(read_github(text).jobs[0].script, tmp_path) == ""


_words = st.sampled_from(
    [None, True, 3, "", "x", "0 3 * * *", "${{ a }}", [], ["a"], {}, {"a": 1}, [{"cron": 1}], [None]]
)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_odd_values_are_no_traceback_and_give_no_error(data: st.DataObject) -> None:
    text, read = data.draw(st.sampled_from([(CRONJOB, read_k8s), (WORKFLOW, read_github)]))
    lines = text.splitlines()
    place = data.draw(st.integers(0, len(lines) - 1))
    head, colon, _ = lines[place].partition(":")
    lines[place] = f"{head}: {json.dumps(data.draw(_words))}" if colon else head
    assert _errors(read("\n".join(lines))) == []


@given(st.text(max_size=200))
@settings(max_examples=80, deadline=None)
def test_any_text_is_no_traceback(text: str) -> None:
    assert _errors(read_k8s(text)) == _errors(read_github(text)) == []
