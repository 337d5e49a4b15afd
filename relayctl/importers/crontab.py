"""A crontab as jobs: a user's, or a system one with a user in each line. Every line is carried or named in a note.

Facts about the dialects: cronie and Vixie cron set variables for the lines below them, run commands by SHELL in the
home directory, take `%` for a line end and give what stands behind the first one to the command as input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from relayctl.core.carried import Import, Job, Names, Notes, Secrets
from relayctl.core.cron import Cron, Every
from relayctl.core.duration import format_duration
from relayctl.importers.script import around, is_variable
from relayctl.importers.timing import NoTiming, Timing, read_timing
from relayctl.templates.gaps import shortest_gap
from relayctl.templates.secretshapes import promises_secret, secret_in

_VARIABLE = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([^\s=]+))\s*=\s*(.*)""")
_DESCRIPTOR = re.compile(r"@\S+")
_EVERY = re.compile(r"@every\s+\S+")
_REBOOT = "@reboot"
_FIELDS = 5
_USUAL_SHELL = "/bin/sh"
_COMMENT_USED = 200

# Variables that cron itself reads: they say nothing to the command.
_MAIL = frozenset({"MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING"})
_WRAPPERS = frozenset(
    {"test", "[", "!", "nice", "ionice", "chronic", "flock", "timeout", "env", "sudo", "exec", "if", "then", "&&", "||"}
    | {"sh", "bash", "/bin/sh", "/bin/bash", "php", "python", "python3", "node", "ruby", "perl", "command"}
)
"""Words in front of the one that names a job."""
_LOCK = (".lock", ".pid")
"""What a wrapper's own file is called, which is no job's name."""
_GIVEN = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)=([^\s$\"']+)")
_HOME_OF_RUN = "cd || exit"


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    when: str
    user: str
    command: str


_NO_WORDS = re.compile(
    r"(?:@[a-z]+|(?:[0-9*][0-9*/,~-]*\s+){4}\S+)(?:\s|$)"  # a line that was taken out
    r"|\W*(?:m|min|minutes?)\b.*\b(?:dow|week|weekday|command|cmd)\b"  # the names of the fields
    r"|[^A-Za-z]*$"
    r"|\W*[|│└┌.]",  # a drawing of the fields
    re.IGNORECASE,
)


@dataclass(slots=True)
class _State:
    """What the lines so far have set."""

    zone: str
    variables: dict[str, str]
    shell: str = _USUAL_SHELL
    delay: timedelta = timedelta()
    comment: str = ""


class CrontabReader:
    """Reads one crontab, from the top; use once."""

    def __init__(self, text: str, *, timezone: str = "UTC", is_system: bool = False) -> None:
        self._text = text
        self._is_system = is_system
        self._state = _State(timezone, {})
        self._names = Names()
        self._jobs: list[Job] = []
        self._notes = Notes()
        self._secrets = Secrets()
        self._values: dict[str, tuple[str, int]] = {}
        self._users: dict[str, int] = {}

    def read(self) -> Import:
        """All jobs and notes, in the order of the lines."""
        for number, raw in enumerate(re.split(r"\r\n|\n|\r", self._text), 1):
            line = raw.replace("\0", "").strip(" \t")
            if not line:
                self._state.comment = ""
            elif line.startswith("#"):
                self._state.comment = _said(_plain(line.lstrip("# \t")))[:_COMMENT_USED]
            elif (variable := _variable_in(line)) is not None:
                self._set(number, *variable)
            else:
                self._carry(number, line)
                self._state.comment = ""
        self._tell_users()
        return Import(jobs=self._jobs, notes=self._notes, secrets=self._secrets.references)

    def _set(self, number: int, name: str, value: str) -> None:
        state = self._state
        if name in _MAIL:
            if value:
                what = f"{name} is not carried: nothing is mailed"
                self._notes.take(number, f"{what}; relayctl logs keeps the output, relayctl dlq what failed for good")
        elif name == "CRON_TZ":
            state.zone = value
        elif name == "SHELL":
            state.shell = value if value.startswith("/") and not re.search(r"\s", value) else _USUAL_SHELL
        elif name == "RANDOM_DELAY":
            minutes = int(value) if re.fullmatch(r"[0-9]{1,4}", value, re.ASCII) else 0
            state.delay = timedelta(minutes=minutes)
        elif not is_variable(name):
            self._notes.take(number, f"the variable {name[:40]!r} is not carried: no shell can set one of that name")
        elif secret_in(name, value) or (promises_secret(name) and value):
            state.variables.pop(name, None)
            self._set_secret(number, name, value)
        else:
            if name in self._values and not self._is_used(name):
                self._secrets.drop(name)
                del self._values[name]
            state.variables[name] = value
            if name == "TZ":
                self._notes.take(number, "TZ is set for the commands and moves no schedule; CRON_TZ would")

    def _set_secret(self, number: int, name: str, value: str) -> None:
        reference, _ = self._secrets.take(name, name)
        if name in self._values and self._values[name][0] != value and self._is_used(name):
            words = f"{name} has another value from here on, and an app has one secret of a name: split the crontab"
            self._notes.take(number, words, is_lost=True)
            return
        self._values[name] = value, len(self._jobs)
        self._notes.take(
            number, f"the value of {name} looks like a secret and is not repeated: relayctl secret set {reference}"
        )

    def _is_used(self, secret: str) -> bool:
        """Whether a line was carried since the secret was set."""
        return len(self._jobs) > self._values[secret][1]

    def _carry(self, number: int, text: str) -> None:
        line = self._split(number, text)
        if isinstance(line, str):
            self._notes.take(number, line, is_lost=True)
            return
        try:
            timing = read_timing(line.when, self._state.zone, seed=line.command)
        except NoTiming as reason:
            self._notes.take(number, f"not carried: {reason}", is_lost=True)
            return
        if timing.remark:
            self._notes.take(number, timing.remark)
        if _holds_secret(line.command):
            self._notes.take(
                number,
                "the command holds what looks like a secret, and so does its script: let it read a variable, and name "
                "that under secrets:",
            )
        if line.user:
            self._users.setdefault(line.user, number)
        self._jobs.append(self._job(line, timing))

    def _split(self, number: int, text: str) -> _Line | str:
        """The parts of a line, or why it is none."""
        text = text.removeprefix("-")
        found = _EVERY.match(text) or _DESCRIPTOR.match(text)
        if found is not None:
            when, rest = found[0], text[found.end() :].strip(" \t")
        else:
            words = text.split(None, _FIELDS)
            if len(words) <= _FIELDS:
                return f"not carried: five fields and a command belong in a line, found {_count(len(words))}"
            when, rest = " ".join(words[:_FIELDS]), words[_FIELDS]
        if when.lower() == _REBOOT:
            return (
                "not carried: @reboot, since a fleet has no start of its own; what runs all the time is a service "
                "(services:), what runs once per deploy is relayctl trigger"
            )
        user = ""
        if self._is_system:
            user, rest = (*re.split(r"[ \t]+", rest, maxsplit=1), "")[:2]
        if not rest or rest.startswith(("#", "%")):
            return "not carried: there is no command in the line"
        return _Line(number, when, user, rest)

    def _job(self, line: _Line, timing: Timing) -> Job:
        state = self._state
        command, stdin = _percent(line.command)
        name = self._names.one_for(_stem(command), f"job-{line.number}")
        variables = {key: value for key, value in state.variables.items() if key != "HOME"}
        home = state.variables.get("HOME")
        script = around(
            command,
            interpreter=state.shell,
            about=[
                f"Line {line.number} of the crontab: {line.when}",
                "As cron does: in the home directory, with the variables set above that line.",
            ],
            variables={"HOME": home, **variables} if home else variables,
            stdin=stdin,
            setup=[_HOME_OF_RUN],
        )
        job = Job(
            name=name,
            cron=timing.cron,
            every=timing.every,
            timezone=timing.timezone,
            line=line.number,
            script=script,
            description=state.comment,
        )
        return self._delayed(job)

    def _delayed(self, job: Job) -> Job:
        """With cronie's random delay as jitter, where it is short enough to be one."""
        if not self._state.delay:
            return job
        trigger = Every.parse(job.every) if job.every else Cron.parse(job.cron, job.timezone)
        gap = shortest_gap(trigger)
        if gap is not None and self._state.delay * 2 >= gap:
            self._notes.take(
                job.line, f"RANDOM_DELAY is not carried: a spread stays below half of {format_duration(gap)}"
            )
            return job
        return replace(job, jitter=format_duration(self._state.delay))

    def _tell_users(self) -> None:
        for user, line in self._users.items():
            self._notes.take(line, f'jobs of "{user[:40]}" run as the user of the worker: a worker never changes users')


def read_crontab(text: str, *, timezone: str = "UTC", is_system: bool = False) -> Import:
    """The jobs of a crontab; `timezone` is that of lines above which no CRON_TZ stands."""
    return CrontabReader(text, timezone=timezone, is_system=is_system).read()


def _variable_in(line: str) -> tuple[str, str] | None:
    found = _VARIABLE.fullmatch(line)
    if found is None:
        return None
    name = next(group for group in found.groups()[:3] if group is not None)
    value = found[4].strip(" \t")
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    return name, value


def _holds_secret(command: str) -> bool:
    """Whether a password or token stands in a command; a variable that it reads is none."""
    given = (found.groups() for found in _GIVEN.finditer(command))
    return secret_in("", command) is not None or any(secret_in(name, value) is not None for name, value in given)


def _percent(command: str) -> tuple[str, str | None]:
    """The command and its input: an unescaped `%` is a line end, and behind the first one the input begins."""
    parts: list[str] = [""]
    for piece in _pieces(command):
        if piece == "%":
            parts.append("")
        else:
            parts[-1] += "%" if piece == r"\%" else piece
    stdin = "\n".join(parts[1:]).removesuffix("\n") if len(parts) > 1 else None
    return parts[0].strip(" \t"), stdin


def _pieces(text: str) -> Iterator[str]:
    yield from (found[0] for found in re.finditer(r"\\%|%|[^%\\]+|\\", text))


def _stem(command: str) -> str:
    """What a job is called: the name of the program that it starts, as far as that can be seen."""
    without_folder = re.sub(r"^\s*(?:cd|pushd)\s+\S+\s*(?:&&|;)", "", command)
    for written in without_folder.split():
        word = written.strip("\"'(){};&|")
        if "=" in word or word.startswith("-") or word.endswith(_LOCK) or word in _WRAPPERS:
            continue
        stem = word.rstrip("/").rpartition("/")[2]
        stem = re.sub(r"\.(?:sh|py|pl|rb|js|php)$", "", stem)
        if stem and stem not in _WRAPPERS:
            return stem
    return ""


def _said(comment: str) -> str:
    """A comment above a line where it tells of it; empty where it is a ruler, a heading or a line taken out."""
    return "" if _NO_WORDS.match(comment) else comment


def _plain(text: str) -> str:
    """Without what a template may not hold or a terminal would obey."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _count(words: int) -> str:
    return "1 word" if words == 1 else f"{words} words"
