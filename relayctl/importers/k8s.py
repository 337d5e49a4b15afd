"""Kubernetes CronJobs as jobs. What a container runs is carried, the container is not: workers run no images."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from relayctl.core.carried import LONGEST_RUN, Import, Job, Names, Notes, Secrets
from relayctl.importers.documents import Part, Unread, another_secret, mapping, one_line, parts_of, sequence
from relayctl.importers.script import around, is_variable, quoted
from relayctl.importers.timing import NoTiming, Timing, read_timing
from relayctl.templates.secretshapes import promises_secret, secret_in

_POLICIES = {"Allow": "allow", "Forbid": "skip"}
_USUAL_RETRIES = 6
"""`backoffLimit` where a Job does not say it."""
_MOST_RETRIES = 100

# Keys whose meaning is carried, or that mean nothing here; every other one is named in a note.
_SPEC = frozenset({"schedule", "timeZone", "concurrencyPolicy", "suspend", "startingDeadlineSeconds", "jobTemplate"})
_SILENT_SPEC = frozenset({"successfulJobsHistoryLimit", "failedJobsHistoryLimit"})
_JOB = frozenset({"backoffLimit", "activeDeadlineSeconds", "template"})
_SILENT_JOB = frozenset({"ttlSecondsAfterFinished"})
_POD = frozenset({"containers", "restartPolicy"})
_CONTAINER = frozenset({"name", "image", "command", "args", "env", "imagePullPolicy", "workingDir"})


def read_k8s(text: str) -> Import:
    """The CronJobs of a manifest file; other objects are named and left."""
    return _Reader().read(text)


class _Reader:
    def __init__(self) -> None:
        self._names = Names()
        self._jobs: list[Job] = []
        self._notes = Notes()
        self._secrets = Secrets()

    def read(self, text: str) -> Import:
        for part in parts_of(text):
            if isinstance(part, Unread):
                self._notes.take(part.line, part.message, is_lost=True)
            elif part.value.get("kind") == "CronJob":
                self._carry(part)
            else:
                self._notes.take(part.line("kind"), f"not carried: a {one_line(part.value.get('kind', 'document'))}")
        return Import(jobs=self._jobs, notes=self._notes, secrets=self._secrets.references)

    def _carry(self, part: Part) -> None:
        spec = mapping(part.value.get("spec"))
        schedule = spec.get("schedule")
        where = part.line("spec", "schedule")
        if not isinstance(schedule, str):
            self._notes.take(where, "not carried: the CronJob has no schedule", is_lost=True)
            return
        zone = spec.get("timeZone")
        try:
            timing = read_timing(schedule, zone if isinstance(zone, str) and zone else "UTC", seed=schedule)
        except NoTiming as reason:
            self._notes.take(where, f"not carried: {reason}", is_lost=True)
            return
        container = self._container(part, spec)
        if container is None:
            return
        if timing.remark:
            self._notes.take(where, timing.remark)
        if not zone and timing.cron and timing.timezone == "UTC":
            self._notes.take(where, "without timeZone the cluster's own zone decided; UTC here")
        self._jobs.append(self._job(part, spec, timing, container))

    def _container(self, part: Part, spec: dict[str, Any]) -> dict[str, Any] | None:
        """The first container, if it says what it runs."""
        pod = _pod(spec)
        path = ("spec", "jobTemplate", "spec", "template", "spec", "containers")
        containers = [item for item in sequence(pod.get("containers")) if isinstance(item, dict)]
        if not containers:
            self._notes.take(part.line(*path), "not carried: the CronJob has no container", is_lost=True)
            return None
        if len(containers) > 1:
            self._notes.take(
                part.line(*path), f"only the first of {len(containers)} containers is carried", is_lost=True
            )
        first = containers[0]
        if not _words(first):
            self._notes.take(
                part.line(*path, 0),
                "not carried: the container runs what its image says; write its command here or call it from a script",
                is_lost=True,
            )
            return None
        return first

    def _job(self, part: Part, spec: dict[str, Any], timing: Timing, container: dict[str, Any]) -> Job:
        meta = mapping(part.value.get("metadata"))
        job = mapping(mapping(spec.get("jobTemplate")).get("spec"))
        self._tell_rest(part, spec, job, container)
        name = self._names.one_for(str(meta.get("name", "")), f"job-{part.line()}")
        setup = [f"cd {quoted([container['workingDir']])} || exit"] if _is_text(container.get("workingDir")) else []
        script = around(
            f"exec {quoted(_words(container))}",
            interpreter="/bin/sh",
            about=[f"CronJob {name}, container {one_line(container.get('name', ''))}"],
            variables=self._variables(part, container),
            stdin=None,
            setup=setup,
        )
        return Job(
            name=name,
            cron=timing.cron,
            every=timing.every,
            timezone=timing.timezone,
            line=part.line("spec", "schedule"),
            script=script,
            timeout=self._timeout(part, job),
            retries=_count(job.get("backoffLimit"), _USUAL_RETRIES),
            # A controller that was away starts the latest missed run where the deadline has not passed.
            catch_up="latest",
            overlap=self._overlap(part, spec),
            is_enabled=spec.get("suspend") is not True,
        )

    def _timeout(self, part: Part, job: dict[str, Any]) -> timedelta:
        seconds = job.get("activeDeadlineSeconds")
        if not isinstance(seconds, int) or isinstance(seconds, bool) or seconds <= 0:
            return LONGEST_RUN
        wanted = timedelta(seconds=min(seconds, 365 * 86_400))
        if wanted > LONGEST_RUN:
            self._notes.take(
                part.line("spec", "jobTemplate", "spec", "activeDeadlineSeconds"),
                "a worker cuts runs off after an hour unless its RELAYCTL_MAX_TIMEOUT says more",
            )
        return wanted

    def _overlap(self, part: Part, spec: dict[str, Any]) -> str:
        policy = str(spec.get("concurrencyPolicy", "Allow"))
        if policy not in _POLICIES:
            self._notes.take(
                part.line("spec", "concurrencyPolicy"),
                f"concurrencyPolicy {one_line(policy)} is not carried: nothing ends a run for the next one; "
                "the next one is skipped instead",
            )
        return _POLICIES.get(policy, "skip")

    def _variables(self, part: Part, container: dict[str, Any]) -> dict[str, str]:
        variables: dict[str, str] = {}
        path = ("spec", "jobTemplate", "spec", "template", "spec", "containers", 0, "env")
        for place, item in enumerate(sequence(container.get("env"))):
            entry = mapping(item)
            name, value = entry.get("name"), entry.get("value")
            line = part.line(*path, place)
            if not isinstance(name, str) or not is_variable(name):
                self._notes.take(line, "a variable without a usable name is not carried")
            elif "valueFrom" in entry:
                self._from_elsewhere(line, name, mapping(entry["valueFrom"]))
            elif secret_in(name, str(value or "")) or (promises_secret(name) and value):
                self._secret(line, name, name, "its value is not repeated")
            else:
                variables[name] = "" if value is None else str(value).replace("\0", "")
        return variables

    def _from_elsewhere(self, line: int, name: str, source: dict[str, Any]) -> None:
        reference = mapping(source.get("secretKeyRef"))
        if reference:
            secret = f"{reference.get('name', '')}-{reference.get('key', '')}"
            self._secret(line, name, secret, "it is a reference")
        else:
            kind = next(iter(source), "valueFrom")
            self._notes.take(
                line, f"{name} is not carried: {one_line(kind)} has no counterpart; give it a value under env:"
            )

    def _secret(self, line: int, name: str, secret: str, why: str) -> None:
        reference, is_taken = self._secrets.take(name, secret)
        if is_taken:
            self._notes.take(line, f"{name} becomes a secret ({why}): relayctl secret set {reference}")
        else:
            self._notes.take(line, another_secret(name, reference), is_lost=True)

    def _tell_rest(self, part: Part, spec: dict[str, Any], job: dict[str, Any], container: dict[str, Any]) -> None:
        image = container.get("image")
        inside = ("spec", "jobTemplate", "spec", "template", "spec")
        if image is not None:
            self._notes.take(
                part.line(*inside, "containers", 0, "image"),
                f"the image {one_line(image)} is not carried: its programs must be on the workers",
            )
        if "startingDeadlineSeconds" in spec:
            self._notes.take(
                part.line("spec", "startingDeadlineSeconds"),
                "startingDeadlineSeconds is not carried: the latest missed run is caught up within the workers' "
                "RELAYCTL_CATCH_UP_HORIZON",
            )
        levels: list[tuple[tuple[str | int, ...], dict[str, Any], frozenset[str]]] = [
            (("spec",), spec, _SPEC | _SILENT_SPEC),
            (("spec", "jobTemplate", "spec"), job, _JOB | _SILENT_JOB),
            (inside, _pod(spec), _POD),
            ((*inside, "containers", 0), container, _CONTAINER),
        ]
        for path, level, known in levels:
            for key in level:
                if key not in known:
                    self._notes.take(part.line(*path, key), f"{one_line(key)} is not carried")


def _pod(spec: dict[str, Any]) -> dict[str, Any]:
    job = mapping(mapping(spec.get("jobTemplate")).get("spec"))
    return mapping(mapping(job.get("template")).get("spec"))


def _words(container: dict[str, Any]) -> list[str]:
    """The program and its arguments; empty where the image decides what is run."""
    command = [str(word) for word in sequence(container.get("command"))]
    return (
        [word.replace("\0", "") for word in (*command, *map(str, sequence(container.get("args"))))] if command else []
    )


def _count(value: object, otherwise: int) -> int:
    return (
        min(value, _MOST_RETRIES)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0
        else otherwise
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value) and "\0" not in value
