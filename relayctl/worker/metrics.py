"""The worker's figures for Prometheus: counters that listen to facts, gauges that are looked at when scraped.

The one door to prometheus-client. It has a registry of its own, `relay_` names, and labels with few values only; every
name is in `docs/operations.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from relayctl import __version__
from relayctl.core import facts
from relayctl.core.health import judge
from relayctl.store.stream import RouteOrder, Stream

if TYPE_CHECKING:
    from datetime import timedelta

    import redis

    from relayctl.store.keys import Keys
    from relayctl.worker.health import Vitals

CONTENT_TYPE = CONTENT_TYPE_LATEST
SCHEDULER_STATES = ("running", "offline", "degraded", "unavailable")
_RUN_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
_LATE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600, 3600)

# name, what it counts, labels. Prometheus puts `_total` behind each.
COUNTERS: Sequence[tuple[str, str, tuple[str, ...]]] = (
    ("relay_published", "Firings that this worker put into the stream.", ()),
    ("relay_published_late", "Firings published well after their instant.", ("how",)),
    ("relay_duplicates", "Firings that a peer had published already.", ()),
    ("relay_publish_failures", "Publish attempts that failed and are tried again.", ()),
    ("relay_passed_over_ranges", "Gaps whose firings the catch-up policy left out.", ()),
    ("relay_overdue_firings", "Firings found due and neither published nor closed, by this worker's audit.", ()),
    ("relay_missed_firings", "Firings that this worker closed as missed.", ("cause",)),
    ("relay_events_received", "External events that were read and understood; firings are not among them.", ()),
    ("relay_events_matched", "External events that at least one rule wanted.", ()),
    ("relay_events_unmatched", "External events that no rule wanted.", ()),
    ("relay_app_events_matched", "Event rules that wanted an external event, by app.", ("app",)),
    ("relay_claims", "Attempts that this worker began.", ("kind",)),
    ("relay_runs", "Attempts that ended here.", ("kind", "outcome")),
    ("relay_leases_lost", "Attempts that a peer took over.", ()),
    ("relay_dead_letters", "Dead letters that this worker wrote.", ("cause",)),
    ("relay_reconcile_swaps", "Schedules put in force or taken out.", ("change",)),
    ("relay_builds_refused", "New code of an app that could not be loaded.", ()),
    ("relay_loop_failures", "Passes of a loop that failed.", ("loop",)),
    ("relay_broker_lost", "Times that the broker went away.", ()),
    ("relay_clock_steps", "Steps of the clock.", ()),
    ("relay_controls_used", "Demands of operators.", ("action",)),
)


class Metrics:
    """Listens to facts by `emit` and to routed batches by `on_routed`; `page` is what a scrape gets."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._counters: dict[str, Any] = {
            name: Counter(name, text, labels, registry=self._registry) for name, text, labels in COUNTERS
        }
        self._run_seconds = Histogram(
            "relay_run_seconds", "How long attempts took.", ("kind",), buckets=_RUN_BUCKETS, registry=self._registry
        )
        self._late_seconds = Histogram(
            "relay_publish_late_seconds",
            "How long after its due time a firing was published.",
            buckets=_LATE_BUCKETS,
            registry=self._registry,
        )
        self._state = SCHEDULER_STATES[0]
        self._hear: Mapping[type[facts.Fact], Callable[[Any], None]] = self._listeners()

    def emit(self, fact: facts.Fact) -> None:
        """Count one fact."""
        hear = self._hear.get(type(fact))
        if hear is not None:
            hear(fact)

    def on_routed(self, orders: Sequence[RouteOrder]) -> None:
        """Count what became of a batch that was routed: external events only."""
        for order in orders:
            if order.is_dropped:
                self._count("relay_events_received")
                self._count("relay_events_unmatched")
            elif order.kind == "event":
                self._count("relay_events_received")
                self._count("relay_events_matched")
                for item in order.owed:
                    self._count("relay_app_events_matched", item.app)

    def watch(self, vitals: Vitals) -> None:
        """Read the gauges from these vitals from now on."""
        self._registry.register(_Gauges(vitals, lambda: self._state))

    def page(self) -> bytes:
        """All figures in Prometheus's text form."""
        return generate_latest(_WithoutCreated(self._registry))

    def _count(self, name: str, *labels: str, by: float = 1) -> None:
        counter = self._counters[name]
        (counter.labels(*labels) if labels else counter).inc(by)

    def _listeners(self) -> Mapping[type[facts.Fact], Callable[[Any], None]]:
        return {
            facts.Published: self._published,
            facts.PublishedLate: lambda it: self._count(
                "relay_published_late", "caught_up" if it.is_catch_up else "late"
            ),
            facts.Duplicate: lambda _: self._count("relay_duplicates"),
            facts.PublishFailed: lambda _: self._count("relay_publish_failures"),
            facts.PassedOver: self._passed_over,
            facts.Overdue: lambda it: self._count("relay_overdue_firings", by=it.count),
            facts.Missed: lambda it: self._count("relay_missed_firings", "lost", by=it.count),
            facts.RunStarted: lambda it: self._count("relay_claims", _kind(it.schedule)),
            facts.RunEnded: self._ended,
            facts.RunFailed: self._failed,
            facts.RunInterrupted: lambda _: self._count("relay_runs", "any", "interrupted"),
            facts.LeaseLost: self._lost,
            facts.MessageRejected: lambda _: self._count("relay_dead_letters", "rejected"),
            facts.RunAbandoned: lambda _: self._count("relay_dead_letters", "unavailable"),
            facts.AppLoaded: self._loaded,
            facts.AppRemoved: lambda it: self._count("relay_reconcile_swaps", "removed", by=it.schedules),
            facts.BuildRefused: lambda _: self._count("relay_builds_refused"),
            facts.LoopFailed: lambda it: self._count("relay_loop_failures", it.loop),
            facts.BrokerLost: lambda _: self._count("relay_broker_lost"),
            facts.ClockStepped: lambda _: self._count("relay_clock_steps"),
            facts.SchedulerChanged: self._scheduler_changed,
            facts.ControlUsed: lambda it: self._count("relay_controls_used", it.action),
        }

    def _passed_over(self, fact: facts.PassedOver) -> None:
        self._count("relay_passed_over_ranges")
        self._count("relay_missed_firings", "passed_over", by=fact.count)

    def _published(self, fact: facts.Published) -> None:
        self._count("relay_published")
        self._late_seconds.observe(fact.late.total_seconds())

    def _ended(self, fact: facts.RunEnded) -> None:
        self._count("relay_runs", _kind(fact.schedule), "succeeded")
        self._run_seconds.labels(_kind(fact.schedule)).observe(fact.took.total_seconds())

    def _failed(self, fact: facts.RunFailed) -> None:
        self._count("relay_runs", _kind(fact.schedule), "failed")
        self._run_seconds.labels(_kind(fact.schedule)).observe(fact.took.total_seconds())
        if fact.retry_in is None:
            self._count("relay_dead_letters", "exhausted")

    def _lost(self, _fact: facts.LeaseLost) -> None:
        self._count("relay_runs", "any", "lost")
        self._count("relay_leases_lost")

    def _loaded(self, fact: facts.AppLoaded) -> None:
        for change in ("added", "changed", "removed"):
            if count := getattr(fact, change):
                self._count("relay_reconcile_swaps", change, by=count)

    def _scheduler_changed(self, fact: facts.SchedulerChanged) -> None:
        self._state = fact.state


class CountedStream(Stream):
    """A stream that tells what it has routed, once it has: a batch tried again is not counted twice."""

    def __init__(self, client: redis.Redis, keys: Keys, on_routed: Callable[[Sequence[RouteOrder]], None]) -> None:
        super().__init__(client, keys)
        self._on_routed = on_routed

    def route(self, orders: Sequence[RouteOrder], *, lease_ms: int, now_ms: int | None = None) -> list[list[str]]:
        answers = super().route(orders, lease_ms=lease_ms, now_ms=now_ms)
        # What was granted must run, whatever becomes of the figures.
        with suppress(Exception):
            self._on_routed(orders)
        return answers


class _Gauges(Collector):
    """What is looked at when scraped."""

    def __init__(self, vitals: Vitals, scheduler_state: Callable[[], str]) -> None:
        self._vitals = vitals
        self._scheduler_state = scheduler_state

    def describe(self) -> list[Metric]:
        # Registering must not ask the broker only to learn the names.
        return [_gauge(name, {}) for name in GAUGES]

    def collect(self) -> Iterator[Metric]:
        signs = self._vitals.look()
        report = judge(signs)
        values: dict[str, dict[tuple[str, ...], float | None]] = {
            "relay_build_info": {(__version__,): 1},
            "relay_live": {(): report.is_live},
            "relay_ready": {(): report.is_ready},
            "relay_uptime_seconds": {(): signs.uptime.total_seconds()},
            "relay_apps": {(): signs.apps},
            "relay_broken_apps": {(): len(signs.broken)},
            "relay_unbuilt_apps": {(): len(signs.unbuilt)},
            "relay_armed_schedules": {(): signs.armed},
            "relay_behind_schedules": {(): signs.behind},
            "relay_overdue_schedules": {(): len(signs.overdue)},
            "relay_unaccounted_firings": {(): self._vitals.unaccounted()},
            "relay_running": {(): signs.running},
            "relay_backlog": {(): self._vitals.backlog()},
            "relay_scheduler_state": {(name,): name == self._scheduler_state() for name in SCHEDULER_STATES},
            "relay_loop_age_seconds": {(name,): loop.pass_age_s for name, loop in signs.loops.items()},
            "relay_outbox_rows": {(): None if signs.outbox_trouble else signs.outbox_rows},
            "relay_outbox_oldest_seconds": {(): _seconds(signs.outbox_age)},
            "relay_service_up": {(it.app, it.service): it.up for it in signs.services},
            "relay_service_wanted": {(it.app, it.service): it.wanted for it in signs.services},
            "relay_service_restarts": {(it.app, it.service): it.restarts for it in signs.services},
            "relay_source_lost": {(): signs.is_source_lost},
            "relay_removals_held": {(): bool(signs.held_removal)},
            "relay_broker_up": {(): signs.broker_trouble is None},
            "relay_clock_difference_seconds": {(): _seconds(signs.clock_difference)},
        }
        for name in GAUGES:
            yield _gauge(name, values[name])


# name: what it shows, labels.
GAUGES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "relay_build_info": ("The version that runs, as a label.", ("version",)),
    "relay_live": ("Whether the loops beat.", ()),
    "relay_ready": ("Whether scheduling is sound here.", ()),
    "relay_uptime_seconds": ("How long the worker has been up.", ()),
    "relay_apps": ("Apps that are live here.", ()),
    "relay_broken_apps": ("Apps whose newest template has errors.", ()),
    "relay_unbuilt_apps": ("Apps whose newest version waits for its environment.", ()),
    "relay_armed_schedules": ("Schedules with a timer here.", ()),
    "relay_behind_schedules": ("Schedules where the fleet runs another definition than the files here.", ()),
    "relay_overdue_schedules": ("Schedules with a firing that is due and not published.", ()),
    "relay_unaccounted_firings": ("Firings that this worker's audit finds overdue, of the schedules it audits.", ()),
    "relay_running": ("Attempts that run here.", ()),
    "relay_backlog": ("Unfinished entries in the stream, of the whole fleet.", ()),
    "relay_scheduler_state": ("1 for the state that the scheduler is in.", ("state",)),
    "relay_loop_age_seconds": ("Seconds since a loop's last complete pass.", ("loop",)),
    "relay_outbox_rows": ("Firings that wait in the outbox of this state directory.", ()),
    "relay_outbox_oldest_seconds": ("For how long the oldest of them that can be published has waited.", ()),
    "relay_service_up": ("Replicas of a service that are up.", ("app", "service")),
    "relay_service_wanted": ("Replicas of a service that should be.", ("app", "service")),
    "relay_service_restarts": ("Ends of its replicas that nobody asked for, since the start.", ("app", "service")),
    "relay_source_lost": ("Whether the apps cannot be read.", ()),
    "relay_removals_held": ("Whether removals wait for consent.", ()),
    "relay_broker_up": ("Whether the broker answers.", ()),
    "relay_clock_difference_seconds": ("This machine's clock minus the broker's.", ()),
}


class _WithoutCreated(Collector):
    """A registry without the `_created` series that the library adds to every counter."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


def _gauge(name: str, values: Mapping[tuple[str, ...], float | None]) -> GaugeMetricFamily:
    text, labels = GAUGES[name]
    family = GaugeMetricFamily(name, text, labels=labels)
    for found, value in values.items():
        if value is not None:
            family.add_metric(found, float(value))
    return family


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()


def _kind(schedule: str | None) -> str:
    return "event" if schedule is None else "schedule"
