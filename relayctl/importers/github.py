"""Schedules of a GitHub workflow as jobs. Steps of plain shell are carried; actions are GitHub's own and are not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from relayctl.core.carried import LONGEST_RUN, Import, Job, Names, Notes, Secrets
from relayctl.importers.documents import Part, Unread, another_secret, mapping, one_line, parts_of, sequence
from relayctl.importers.script import around, is_variable, quoted
from relayctl.importers.timing import NoTiming, Timing, read_timing
from relayctl.templates.secretshapes import promises_secret, secret_in

_EXPRESSION = re.compile(r"\$\{\{")
_SECRET = re.compile(r"\$\{\{\s*secrets\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}", re.ASCII)
_CHECKOUT = re.compile(r"actions/checkout(?:@.*)?")
_SHELLS = {"bash": "/bin/bash", "sh": "/bin/sh"}
_JOB_KEYS = frozenset({"name", "steps", "env", "timeout-minutes", "permissions"})
_TOLD_KEYS = {
    "runs-on": "runs-on is not carried: it runs where the workers are",
    "concurrency": "concurrency is not carried: overlap: says what a run does that finds another",
}
_STEP_KEYS = frozenset({"name", "id", "run", "env", "shell", "working-directory"})


def read_github(text: str, *, stem: str = "workflow") -> Import:
    """The scheduled jobs of a workflow file; `stem` names it where it has no name of its own."""
    reader = _Reader(stem)
    for part in parts_of(text):
        reader.add(part)
    return reader.found()


class _Refusal(Exception):
    """A job cannot be carried; line and reason."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


class _Reader:
    def __init__(self, stem: str) -> None:
        self._stem = stem
        self._names = Names()
        self._jobs: list[Job] = []
        self._notes = Notes()
        self._secrets = Secrets()

    def found(self) -> Import:
        """Everything so far."""
        return Import(jobs=self._jobs, notes=self._notes, secrets=self._secrets.references)

    def add(self, part: Part | Unread) -> None:
        """Carry what one document of the file says."""
        if isinstance(part, Unread):
            self._notes.take(part.line, part.message, is_lost=True)
            return
        schedules = sequence(mapping(part.value.get("on")).get("schedule"))
        if not schedules:
            self._notes.take(part.line("on"), "nothing to carry: the workflow has no on.schedule", is_lost=True)
            return
        self._tell_other_triggers(part)
        timings = [timing for place in range(len(schedules)) for timing in self._timing(part, schedules[place], place)]
        for name in mapping(part.value.get("jobs")):
            self._carry(part, name, timings)

    def _tell_other_triggers(self, part: Part) -> None:
        for trigger in mapping(part.value.get("on")):
            if trigger not in ("schedule", "workflow_dispatch"):
                self._notes.take(part.line("on", trigger), f"the trigger {one_line(trigger)} is not carried")

    def _timing(self, part: Part, entry: object, place: int) -> Sequence[tuple[Timing, int]]:
        line = part.line("on", "schedule", place)
        written = mapping(entry)
        zone = written.get("timezone")
        try:
            cron = written.get("cron")
            if not isinstance(cron, str):
                raise NoTiming("there is no cron in the entry")
            timing = read_timing(cron, zone if isinstance(zone, str) else "UTC", seed=self._stem)
        except NoTiming as reason:
            self._notes.take(line, f"not carried: {reason}", is_lost=True)
            return ()
        if timing.remark:
            self._notes.take(line, timing.remark)
        return ((timing, line),)

    def _carry(self, part: Part, name: str, timings: Sequence[tuple[Timing, int]]) -> None:
        job = mapping(mapping(part.value.get("jobs")).get(name))
        try:
            script = self._script(part, name, job)
        except _Refusal as reason:
            self._notes.take(reason.line, f"job {one_line(name)} is not carried: {reason}", is_lost=True)
            return
        workflow = part.value.get("name")
        stem = f"{workflow if isinstance(workflow, str) else self._stem}-{name}"
        for timing, line in timings:
            self._jobs.append(
                Job(
                    name=self._names.one_for(stem, f"job-{line}"),
                    cron=timing.cron,
                    every=timing.every,
                    timezone=timing.timezone,
                    line=line,
                    script=script,
                    timeout=_timeout(job),
                )
            )

    def _script(self, part: Part, name: str, job: dict[str, Any]) -> str:
        where = ("jobs", name)
        for key in job:
            if key in _TOLD_KEYS:
                self._notes.take(part.line(*where, key), _TOLD_KEYS[key])
            elif key not in _JOB_KEYS:
                raise _Refusal(part.line(*where, key), f"{one_line(key)} has no counterpart")
        variables = self._variables(part, ("env",), part.value.get("env"))
        variables |= self._variables(part, (*where, "env"), job.get("env"))
        commands, shell = self._steps(part, where, job)
        return around(
            "\n".join(commands),
            interpreter=_SHELLS[shell],
            about=[f"Job {one_line(name)} of the workflow {one_line(self._stem)}"],
            variables=variables,
            stdin=None,
            setup=["set -e"],
        )

    def _steps(self, part: Part, where: tuple[str, ...], job: dict[str, Any]) -> tuple[list[str], str]:
        commands: list[str] = []
        shells: set[str] = set()
        for place, item in enumerate(sequence(job.get("steps"))):
            step, line = mapping(item), part.line(*where, "steps", place)
            uses = step.get("uses")
            if isinstance(uses, str) and _CHECKOUT.fullmatch(uses):
                self._notes.take(line, "checkout is not carried: the app's folder holds what is in git")
                continue
            commands.append(self._step(part, (*where, "steps", place), step, line))
            shells.add(str(step.get("shell", "bash")))
        if not commands:
            raise _Refusal(part.line(*where), "it has no step with commands")
        if len(shells) > 1 or not shells <= set(_SHELLS):
            raise _Refusal(
                part.line(*where, "steps"), f"its steps want {', '.join(sorted(shells))[:60]} as their shell"
            )
        return commands, shells.pop()

    def _step(self, part: Part, where: tuple[str | int, ...], step: dict[str, Any], line: int) -> str:
        run = step.get("run")
        if not isinstance(run, str) or not run.strip():
            what = f"the action {one_line(step['uses'])}" if "uses" in step else "a step without run"
            raise _Refusal(line, f"{what} runs only on GitHub")
        for key in step:
            if key not in _STEP_KEYS:
                raise _Refusal(part.line(*where, key), f"{one_line(key)} of a step has no counterpart")
        if _EXPRESSION.search(run):
            raise _Refusal(part.line(*where, "run"), "its commands hold ${{ … }}; pass values by env:")
        lines = [
            f"export {name}={quoted([value])}"
            for name, value in self._variables(part, (*where, "env"), step.get("env")).items()
        ]
        folder = step.get("working-directory")
        if isinstance(folder, str):
            lines.append(f"cd {quoted([folder])}")
        # Each step is a shell of its own: what it sets or where it goes is gone at its end.
        commands = run.replace("\0", "").rstrip("\n")
        # A backslash at the end joins an empty line to the commands, not the end of the shell.
        return "\n".join(["(", *lines, commands, *([""] if commands.endswith("\\") else []), ")"])

    def _variables(self, part: Part, where: tuple[str | int, ...], written: object) -> dict[str, str]:
        variables: dict[str, str] = {}
        for name, value in mapping(written).items():
            line, text = part.line(*where, name), str(value)
            secret = _SECRET.fullmatch(text.strip())
            if not is_variable(name):
                self._notes.take(
                    line, f"the variable {one_line(name)} is not carried: no shell can set one of that name"
                )
            elif secret is not None:
                self._secret(line, name, secret[1])
            elif _EXPRESSION.search(text):
                self._notes.take(line, f"{name} is not carried: ${{{{ … }}}} is known only on GitHub; give it a value")
            elif secret_in(name, text) or promises_secret(name):
                self._secret(line, name, name)
            else:
                variables[name] = text.replace("\0", "")
        return variables

    def _secret(self, line: int, name: str, secret: str) -> None:
        reference, is_taken = self._secrets.take(name, secret)
        if is_taken:
            self._notes.take(line, f"{name} becomes a secret: relayctl secret set {reference}")
        else:
            self._notes.take(line, another_secret(name, reference), is_lost=True)


def _timeout(job: dict[str, Any]) -> timedelta:
    minutes = job.get("timeout-minutes")
    if isinstance(minutes, int) and not isinstance(minutes, bool) and 0 < minutes <= 360:
        return timedelta(minutes=minutes)
    return LONGEST_RUN
