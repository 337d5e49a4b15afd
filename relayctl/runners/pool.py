"""All children of a worker: who may start now, who is spawned, who goes. One thread, the caller's selector, no waiting.

Every descriptor is registered with a callback as its data: the loop calls `key.data(mask)` for each ready key and then
`tick`. The thread that drives a pool must live as long as the pool, since the kernel ends children with their thread.
"""

from __future__ import annotations

import selectors
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from relayctl.errors import RelayError
from relayctl.host.clock import Clock
from relayctl.runners.build import Build
from relayctl.runners.cgroups import NOTHING, Delegation
from relayctl.runners.childproc import Child, State
from relayctl.runners.deployed import DeployedApp, Settled, ended_early, in_words, places_of, why_not_ready
from relayctl.runners.environ import resolve_secrets
from relayctl.runners.invocation import Ended, Outcome, Run, Telling
from relayctl.runners.nursery import Nursery
from relayctl.runners.output import Masker
from relayctl.runners.runner import CannotLaunch, Runner, runner_for

LONGEST_BACKOFF_S = 30.0
MAX_PROBES = 2


class Pool:
    """Runs invocations of the deployed apps in children. See the module for how it is driven."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        clock: Clock,
        secrets: Callable[[str], str],
        on_line: Callable[[Run, str, str], None],
        *,
        max_children: int,
        base_environ: Mapping[str, str],
        grace_s: float = 3.0,
        idle_s: float = 300.0,
        delegation: Delegation = NOTHING,
    ) -> None:
        """`secrets` gives the value of a reference or raises SecretMissing; `on_line` gets every line to be shown."""
        self.selector = selector
        self.grace_s = grace_s
        self.monotonic = clock.monotonic
        self.show = on_line
        self._secrets = secrets
        self._max_children = max_children
        self._base = dict(base_environ)
        self._nursery = Nursery(
            self.monotonic,
            base_environ,
            self._wake,
            idle_s=idle_s,
            on_unshared=self._handlers_unshared,
            delegation=delegation,
        )
        self.expect = self._nursery.expect
        self.has_orphans = self._nursery.has_orphans
        self.note_brood = self._nursery.note_brood
        self._idle_s = idle_s
        self._apps: dict[str, DeployedApp] = {}
        self._by_key: dict[str, Child] = {}
        self._ended: list[Ended] = []
        self._settled: list[Settled] = []
        self._unshared: list[tuple[str, str]] = []
        self._is_closing = False

    # Apps

    def deploy(self, build: Build) -> None:
        """Put `build` in force. Raises UsageError for a runtime that cannot be run here.

        Where an older build serves, the new one takes over when a child of it has imported its handlers; `take_settled`
        tells. Busy children of the old one go after their run.
        """
        runner = runner_for(build, self._base)
        state = self._apps.get(build.app)
        if state is None:
            self._apps[build.app] = DeployedApp(build=build, runner=runner, running=self._running(build.app))
            self._settled.append(Settled(build.app, build.revision, True, ""))
            return
        self._drop_probe(state)
        state.next = None
        if build == state.build:
            state.refusal = ""
            return
        if runner.is_warm and state.runner.is_warm and build.handlers and not state.trouble:
            state.next = (build, runner)
            self._probe_more()
        else:
            self._adopt(state, build, runner)

    def retire(self, app: str) -> None:
        """The app is gone: idle children go at once, busy ones after their run, runs that still wait are refused."""
        state = self._apps.pop(app, None)
        if state is None:
            return
        self._drop_probe(state)
        self._retire_children(app)
        for run in state.waiting:
            self._not_started(run, Outcome.REFUSED, f"app {app} is no longer deployed on this worker")

    def trouble(self, app: str) -> str:
        """Why children of this app cannot be had now, or why its newest build was refused; empty when all is well."""
        state = self._apps.get(app)
        return (state.trouble or state.refusal) if state is not None else ""

    def unable(self) -> tuple[str, ...]:
        """Apps of which no child can be had: the last ones that were tried ended before they could take a run."""
        return tuple(name for name, each in self._apps.items() if each.failures and not (each.idle or each.running))

    def directories(self) -> set[Path]:
        """Where the code lies that serves, is about to, or still runs, and what it was installed with."""
        return places_of(self._apps.values(), self._nursery.children)

    def take_settled(self) -> list[Settled]:
        """What became of deployed builds since the last call."""
        settled, self._settled = self._settled, []
        return settled

    def take_unshared(self) -> list[tuple[str, str]]:
        """Apps whose fresh children import the handlers each for itself, with the reason; each is told once."""
        unshared, self._unshared = self._unshared, []
        return unshared

    def _handlers_unshared(self, build: Build, reason: str) -> None:
        state = self._apps.get(build.app)
        if state is not None and state.unshared != reason:
            state.unshared = reason
            self._unshared.append((build.app, reason))

    def _adopt(self, state: DeployedApp, build: Build, runner: Runner) -> None:
        state.build, state.runner, state.next = build, runner, None
        state.failures, state.retry_at, state.is_preloading = 0, 0.0, True
        state.trouble = state.refusal = ""
        self._retire_children(build.app)
        self._settled.append(Settled(build.app, build.revision, True, ""))
        self._serve_waiting(state)

    def _retire_children(self, app: str) -> None:
        for child in self._nursery.children:
            if child.build.app == app and not child.is_retired:
                self._dismiss(child)
        state = self._apps.get(app)
        self._nursery.dismiss_zygotes(app, state.build if state is not None else None)

    def _dismiss(self, child: Child) -> None:
        child.is_retired = True
        state = self._apps.get(child.build.app)
        if state is not None:
            if child in state.idle:
                state.idle.remove(child)
            elif child.state is State.STARTING and child is not state.probe:
                state.starting -= 1
        child.leave(self.grace_s)

    # A new build beside the old one

    def _probe_more(self) -> None:
        probing = sum(1 for state in self._apps.values() if state.probe is not None)
        for state in self._apps.values():
            if probing >= MAX_PROBES or self._is_closing:
                return
            if state.next is not None and state.probe is None:
                build, runner = state.next
                state.probe = self._spawn(state, build, runner)
                probing += state.probe is not None

    def _drop_probe(self, state: DeployedApp) -> None:
        if state.probe is not None:
            probe, state.probe = state.probe, None
            probe.is_retired = True
            probe.leave(self.grace_s)

    def _judge_probe(self, state: DeployedApp, probe: Child, failed: list[Any]) -> None:
        state.probe = None
        if state.next is None:
            return
        build, runner = state.next
        if failed:
            probe.is_retired = True
            probe.leave(self.grace_s)
            self._refuse_build(state, build, why_not_ready(failed))
        else:
            self._adopt_with(state, build, runner, probe)
        self._probe_more()

    def _adopt_with(self, state: DeployedApp, build: Build, runner: Runner, probe: Child) -> None:
        probe.is_retired = True  # so that adopting does not send it away
        self._adopt(state, build, runner)
        probe.is_retired = False
        self.on_idle(probe)

    def _refuse_build(self, state: DeployedApp, build: Build, reason: str) -> None:
        state.next = None
        state.refusal = reason
        self._nursery.dismiss_zygotes(build.app, state.build)
        self._settled.append(Settled(build.app, build.revision, False, reason))

    # Work

    def places(self, app: str) -> int:
        """How many more runs the app's concurrency allows, be their children there or not."""
        state = self._apps.get(app)
        if state is None or self._is_closing:
            return 0
        free = state.build.concurrency - state.running - len(state.waiting)
        return max(0, free if state.runner.is_warm else min(free, self._room() + self._evictable(app)))

    def capacity(self, app: str) -> int:
        """How many runs of this app can start now without waiting for a child."""
        places = self.places(app)
        return min(places, len(self._apps[app].idle)) if places and self._apps[app].runner.is_warm else places

    def demand(self, app: str, n: int) -> None:
        """There is work for `n` more runs, and that which waits: start children, within concurrency and size."""
        state = self._apps.get(app)
        if state is not None and not self._is_closing:
            self._grow(state, max(n, len(state.waiting)))

    def is_grown(self, app: str) -> bool:
        """Whether no demand can bring another child of the app: all that its concurrency allows are there."""
        state = self._apps.get(app)
        return state is not None and state.is_grown

    def waited_for(self) -> list[str]:
        """Apps with runs that wait for a child."""
        return [name for name, state in self._apps.items() if state.waiting]

    def start(self, run: Run) -> None:
        """Start `run`; called within `capacity`. One that finds no room or a dead child waits for the next."""
        state = self._apps.get(run.app)
        if state is None or self._is_closing:
            why = "this worker is stopping" if self._is_closing else f"app {run.app} is not deployed on this worker"
            self._not_started(run, Outcome.REFUSED, why)
        elif state.waiting or not self._try_start(state, run):
            state.waiting.append(run)
            self._serve_waiting(state)

    def stop(self, key: str, reason: str, *, grace_s: float = 0.0) -> None:
        """Interrupt one run: killed at once, or after SIGTERM and a grace. Unknown keys are ignored."""
        child = self._by_key.get(key)
        if child is not None:
            child.interrupt(reason, grace_s)
            return
        for state in self._apps.values():
            for run in state.waiting:
                if run.key == key:
                    state.waiting.remove(run)
                    self._not_started(run, Outcome.INTERRUPTED, reason)
                    return

    def busy(self) -> int:
        """Runs that have not ended, those that wait for a child included."""
        return sum(state.running + len(state.waiting) for state in self._apps.values()) + self._running_retired()

    def _running(self, app: str) -> int:
        return sum(1 for child in self._nursery.children if child.run is not None and child.build.app == app)

    def _running_retired(self) -> int:
        return sum(1 for child in self._nursery.children if child.run is not None and child.build.app not in self._apps)

    def tellings(self, known: Mapping[str, int], *, since: float) -> list[Telling]:
        """What runs that began by `since` and go on have printed, where it is more than the `known` bytes."""
        told = (child.telling(known, since) for child in self._nursery.children)
        return [each for each in told if each is not None]

    def take_ended(self) -> list[Ended]:
        """The runs that ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def _try_start(self, state: DeployedApp, run: Run) -> bool:
        """Start a run or end it with the reason why not; False when it has to wait."""
        if state.running >= state.build.concurrency or (state.runner.is_warm and not state.idle):
            return False
        if state.runner.is_warm:
            return self._hand_over(state, run)
        self._start_program(state, run)
        return True

    def _serve_waiting(self, state: DeployedApp) -> None:
        while state.waiting and self._try_start(state, state.waiting[0]):
            state.waiting.popleft()
        if state.waiting:
            self._grow(state, len(state.waiting))

    def _hand_over(self, state: DeployedApp, run: Run) -> bool:
        variables: Mapping[str, str] | None = run.variables
        if state.build.secrets:
            variables = self._with_secrets(state, run)
        if variables is None:
            return True
        while state.idle:
            child = state.idle[-1]
            if child.start(run, variables, state.masker, self.monotonic()):
                state.idle.pop()
                state.running += 1
                self._by_key[run.key] = child
                return True
            self._dismiss(child)
        return False

    def _with_secrets(self, state: DeployedApp, run: Run) -> dict[str, str] | None:
        """The run's variables and secrets, or None when one is missing and the run has thereby ended."""
        try:
            found = resolve_secrets(state.build, self._secrets)
        except RelayError as missing:
            way_out = f"; {missing.help}" if missing.help else ""
            self._not_started(run, Outcome.FAILED, missing.message + way_out)
            return None
        if found != state.secrets:
            state.secrets, state.masker = found, Masker(found.values())
        return {**found, **run.variables}

    def _start_program(self, state: DeployedApp, run: Run) -> None:
        variables = self._with_secrets(state, run)
        if variables is None:
            return
        if self._room() <= 0:
            self._evict(state.build.app)
        try:
            launch = state.runner.launch(run.handler, is_preloading=False)
            child = self._nursery.launch(
                self, state.build, launch, is_single_use=True, variables=variables, stdin=run.stdin
            )
        except CannotLaunch as refusal:
            self._not_started(run, Outcome.FAILED, str(refusal))
            return
        except (OSError, ValueError) as error:
            self._not_started(run, Outcome.FAILED, f"{run.handler} cannot be started: {in_words(error)}")
            return
        state.running += 1
        self._by_key[run.key] = child
        child.start_as_program(run, state.masker, self.monotonic())

    def _not_started(self, run: Run, outcome: Outcome, reason: str) -> None:
        now = self.monotonic()
        self._ended.append(
            Ended(run=run, outcome=outcome, reason=reason, started_at=now, finished_at=now, started=False)
        )

    # Children

    def _grow(self, state: DeployedApp, n: int) -> None:
        if not state.runner.is_warm:
            return
        wanted, spare = state.wanted(n)
        if wanted <= 0 or self.monotonic() < state.retry_at:
            return
        for made in range(wanted):
            if self._room() <= 0 and (made >= wanted - spare or not self._evict(state.build.app)):
                return
            if self._spawn(state, state.build, state.runner) is None:
                return
            state.starting += 1

    def _room(self) -> int:
        return self._max_children - self._nursery.occupied

    def _evictable(self, app: str) -> int:
        return sum(len(state.idle) for name, state in self._apps.items() if name != app)

    def _evict(self, app: str) -> bool:
        """Send away the child of another app that has rested longest; never one at work."""
        resting = [state.idle[0] for name, state in self._apps.items() if name != app and state.idle]
        if not resting:
            return False
        self._dismiss(min(resting, key=lambda child: child.alarm))
        return True

    def _spawn(self, state: DeployedApp, build: Build, runner: Runner) -> Child | None:
        try:
            launch = runner.launch("", is_preloading=state.is_preloading or build is not state.build)
            return self._nursery.launch(
                self, build, launch, is_single_use=runner.is_single_use, variables={}, stdin=None
            )
        except (CannotLaunch, OSError, ValueError) as error:
            self._start_failed(state, build, f"no child could be started: {in_words(error)}")
            return None

    def _start_failed(self, state: DeployedApp, build: Build, reason: str) -> None:
        if state.next is not None and build is state.next[0]:
            self._refuse_build(state, build, reason)
            return
        now = self.monotonic()
        if now >= state.retry_at:  # children that end together, with their zygote for one, have failed once
            state.failures += 1
            state.retry_at = now + min(LONGEST_BACKOFF_S, 0.25 * 2**state.failures)
        state.trouble = reason
        # A module that kills its process at import must not hide the others: next time they load when they are run.
        state.is_preloading = False
        for run in state.waiting:
            self._not_started(run, Outcome.FAILED, reason)
        state.waiting.clear()

    # What children tell

    def on_ready(self, child: Child, failed: list[Any]) -> None:
        """A child has started; `failed` are the handlers that could not be imported, with reasons."""
        state = self._apps.get(child.build.app)
        if state is None or child.is_retired:
            child.leave(self.grace_s)
        elif child is state.probe:
            self._judge_probe(state, child, failed)
        else:
            state.starting -= 1
            state.failures = state.excuses = 0
            state.trouble = why_not_ready(failed) if failed else ""
            self.on_idle(child)

    def on_idle(self, child: Child) -> None:
        """A child can take a run."""
        state = self._apps[child.build.app]
        state.idle.append(child)
        child.rest(self.monotonic() + self._idle_s)
        if state.waiting:
            self._serve_waiting(state)

    def on_ended(self, child: Child, ended: Ended) -> None:
        """A run has ended, and its slot is free."""
        self._ended.append(ended)
        key = ended.run.key
        if self._by_key.get(key) is child:
            del self._by_key[key]
        state = self._apps.get(child.build.app)
        if state is not None:
            state.running -= 1
        if ended.outcome is not Outcome.SUCCEEDED:
            self._nursery.sweep_soon(0.0)

    def on_gone(self, child: Child) -> None:
        """A child has ended and was read out."""
        self._nursery.forget(child)
        state = self._apps.get(child.build.app)
        if state is None:
            return
        if child in state.idle:
            state.idle.remove(child)
        if not child.was_ready and not child.is_retired and state.runner.is_warm:
            if child is state.probe:
                state.probe = None
            else:
                state.starting -= 1
            if not state.is_excused(child):
                self._start_failed(state, child.build, ended_early(child))
        self._serve_waiting(state)
        self._probe_more()

    # Time

    def next_timer(self) -> float | None:
        """The monotonic instant at which `tick` should run at the latest."""
        return self._nursery.next_timer()

    def tick(self, now: float) -> None:
        """Deadlines, kills after a grace, eviction of idle children, stray descendants."""
        self._nursery.tick(now)

    def turn(self, timeout: float) -> None:
        """One round of a loop that has nothing else to wait for: select, callbacks, tick."""
        timer = self.next_timer()
        wait = timeout if timer is None else min(timeout, timer - self.monotonic())
        for key, mask in self.selector.select(max(0.0, wait)):
            key.data(mask)
        self.tick(self.monotonic())

    def _wake(self, child: Child, now: float) -> None:
        if child.state is State.IDLE:
            self._dismiss(child)
        else:
            child.wake(now)

    # The end

    def interrupt_all(self, reason: str, *, grace_s: float | None = None) -> None:
        """Nothing starts any more; idle children go, runs get SIGTERM and after the grace SIGKILL."""
        self._is_closing = True
        grace = self.grace_s if grace_s is None else grace_s
        for state in self._apps.values():
            for run in state.waiting:
                self._not_started(run, Outcome.INTERRUPTED, reason)
            state.waiting.clear()
        for child in self._nursery.children:
            if child.run is not None:
                child.interrupt(reason, grace)
            else:
                self._dismiss(child)

    def close(self) -> None:
        """Kill what is left, wait for it to be gone, give back every descriptor. The selector stays the caller's."""
        self.interrupt_all("the worker stopped", grace_s=0.0)
        self._nursery.close()
