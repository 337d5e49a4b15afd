"""Apps of random schedules, rules and services as values, and small ones in words, for tests that compare them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st
from support.templates import checked

from relayctl.core.cron import Cron, Every
from relayctl.core.description import Description, describe_app
from relayctl.core.model import App, CatchUp, Contract, EventRule, Overlap, Resources, Schedule, Service
from relayctl.core.names import AppName, ScheduleName, ServiceName
from relayctl.core.pattern import Pattern
from relayctl.core.running import Running, RunningSchedule

NOW = datetime(2026, 9, 29, 10, 15, tzinfo=UTC)
SECRET = "hunter2-"
"""Every generated environment value begins with it, so that a test can look for it in any output."""

_names = st.sampled_from(["nightly", "sync", "report", "clean-up"])
_handlers = st.sampled_from(["jobs.run", "jobs.other", "more.jobs.go"])
_crons = st.builds(
    Cron.parse,
    st.sampled_from(["0 3 * * *", "@daily", "0 0 * * *", "30 2 * * *", "*/15 * * * *", "0 9 * * 1-5", "15 6 1 * *"]),
    st.sampled_from(["UTC", "Europe/Rome", "America/New_York"]),
)
_everies = st.builds(Every, seconds=st.sampled_from([1, 60, 900, 5400]))
_contracts = st.builds(
    Contract,
    handler=_handlers,
    timeout=st.sampled_from([timedelta(seconds=6), timedelta(milliseconds=1500), timedelta(minutes=2)]),
    retries=st.integers(0, 5),
)
_schedules = st.builds(
    Schedule,
    name=_names.map(ScheduleName),
    trigger=_crons | _everies,
    contract=_contracts,
    enabled=st.booleans(),
    overlap=st.sampled_from(Overlap),
    catch_up=st.sampled_from(CatchUp),
    jitter=st.sampled_from([timedelta(0), timedelta(seconds=30)]),
    input=st.sampled_from([None, '{"a":1}']),
)


def _pattern(word: str) -> Pattern:
    app, problems = checked(f"runtime: python\nevents:\n  - {{handler: jobs.run, pattern: {{kind: [{word}]}}}}\n")
    assert app is not None, problems
    return app.events[0].pattern


_PATTERNS = [_pattern("one"), _pattern("two")]
_rules = st.builds(EventRule, pattern=st.sampled_from(_PATTERNS), contract=_contracts)
_services = st.builds(
    Service,
    name=st.sampled_from(["web", "api"]).map(ServiceName),
    command=st.sampled_from([("./serve",), ("./serve", "-v")]),
    replicas=st.integers(1, 3),
)
_pairs = st.dictionaries(st.sampled_from(["URL", "KEY"]), st.sampled_from([f"{SECRET}1", f"{SECRET}2"]))


def apps(name: str) -> st.SearchStrategy[App]:
    """An app of this name with anything in it."""
    return st.builds(
        App,
        name=st.just(AppName(name)),
        runtime=st.just("python"),
        concurrency=st.integers(1, 3),
        resources=st.builds(Resources, memory=st.sampled_from([None, 1 << 28])),
        env=_pairs.map(lambda pairs: tuple(sorted(pairs.items()))),
        secrets=st.sampled_from([(), (("TOKEN", "token"),)]),
        events=st.lists(_rules, max_size=2, unique_by=lambda rule: rule.contract.handler).map(tuple),
        schedules=st.lists(_schedules, max_size=3, unique_by=lambda schedule: schedule.name).map(tuple),
        services=st.lists(_services, max_size=2, unique_by=lambda service: service.name).map(tuple),
    )


trees = st.fixed_dictionaries({}, optional={name: apps(name) for name in ("billing", "crm")})
"""Some apps by name."""


def described(tree: Mapping[str, App]) -> dict[str, Description]:
    return {name: describe_app(app, f"rev-{name}") for name, app in tree.items()}


def sample(*schedules: str, name: str = "billing", head: str = "") -> App:
    """An app with an event rule and these schedules, each written as a YAML flow mapping without its handler."""
    text = f"runtime: python\n{head}events:\n  - {{handler: jobs.run, pattern: {{kind: [never]}}}}\n"
    if schedules:
        text += "schedules:\n" + "".join(f"  - {{handler: jobs.run, {schedule}}}\n" for schedule in schedules)
    app, problems = checked(text)
    assert app is not None, problems
    return App(
        **{field: getattr(app, field) for field in App.__slots__ if field != "name"},
        name=AppName(name),
    )


def running(*reports: Mapping[str, Description], **more: object) -> Running:
    """Live workers w1, w2… that report these, on a registry that has the first one's schedules."""
    first = reports[0] if reports else {}
    registry = {
        (app, name): RunningSchedule(hash=fields["hash"], spec=fields["spec"])
        for app, description in first.items()
        for name, fields in description.schedules.items()
    }
    workers = {f"w{number}": report for number, report in enumerate(reports, 1)}
    return Running(**{"workers": workers, "registry": registry, **more})  # type: ignore[arg-type]
