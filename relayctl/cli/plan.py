"""`relayctl plan`: what the templates here would change in what runs, or in another tree. Changes nothing but files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relayctl.cli.verb import verb_app
from relayctl.errors import RelayError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from relayctl.api import Observation, Place
    from relayctl.cli.desk import Desk
    from relayctl.core.plan import Plan
    from relayctl.core.planfile import SavedPlan
    from relayctl.core.problem import Problem
    from relayctl.host.clock import Clock
    from relayctl.render.plan import Setting
    from relayctl.templates.described import DescribedTree

app = verb_app()

_HORIZON = "24h"
_LONGEST_HORIZON = timedelta(days=366)


@app.command()
def plan(
    context: typer.Context,
    target: Annotated[
        list[str] | None, typer.Option("--target", metavar="APP[/NAME]", help="show only this; may be repeated")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="save the plan for apply")] = None,
    show: Annotated[Path | None, typer.Option("--show", metavar="FILE", help="show a saved plan")] = None,
    against: Annotated[
        str | None, typer.Option("--against", metavar="DIR|COMMIT", help="compare with this tree, not with a fleet")
    ] = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="end with 10 when changes are shown")
    ] = False,
    show_unchanged: Annotated[bool, typer.Option("--show-unchanged", help="list what stays as it is too")] = False,
    horizon: Annotated[
        str | None, typer.Option("--horizon", metavar="DURATION", help=f"over which firings are counted [{_HORIZON}]")
    ] = None,
    concise: Annotated[bool, typer.Option("--concise", help="one line per change")] = False,
) -> None:
    """Show what the templates would change in what runs.

    Without a live worker it compares with the registry's last state; without a broker nothing runs and all is new.
    """
    from relayctl.cli.desk import Desk
    from relayctl.cli.exits import Code, Ended
    from relayctl.cli.tree import say_broken

    desk = Desk(context)
    _refuse_together({"--show": show, "--out": out, "--against": against})
    _refuse_together({"--show": show, "--horizon": horizon})
    made = _saved(desk, show) if show is not None else _made(desk, against, horizon or _HORIZON)
    shown = _narrowed(made.plan, target or ())
    hint = made.setting.hint if out is None else ""
    _deliver(desk, shown, replace(made.setting, is_concise=concise, shows_unchanged=show_unchanged, hint=hint))
    if say_broken(desk, made.problems):
        if out is not None:
            desk.complain(f"{out}: not saved, since a plan is applied as a whole or not at all")
        raise Ended(Code.FINDINGS)
    if out is not None:
        _save(desk, made, out)
    if detailed_exitcode and (shown.has_changes or made.setting.recoded):
        raise Ended(Code.CHANGES)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A plan with what it was made from; `observation` and `tree` only where it is about a fleet."""

    plan: Plan
    setting: Setting
    problems: Sequence[Problem] = ()
    tree: DescribedTree | None = None
    observation: Observation | None = None


def _refuse_together(given: dict[str, object]) -> None:
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise UsageError(f"{names[0]} does not go together with {names[1]}", help=f"leave out {names[1]}")


def _made(desk: Desk, against: str | None, horizon: str) -> _Made:
    import gc

    from relayctl import api
    from relayctl.cli import tree as trees
    from relayctl.cli.fleet import place_of
    from relayctl.cli.when import parse_span
    from relayctl.host.clock import SystemClock

    span, clock = parse_span(horizon, "--horizon", longest=_LONGEST_HORIZON), SystemClock()
    began, now = clock.monotonic(), desk.now()
    # This process ends soon, and collecting between the many small values of a large tree only costs time.
    gc.disable()
    if against is not None:
        return _made_against(desk, trees.described(desk, now, span), against, now, span)
    look = _Look(place_of(desk.settings), clock)
    tree = trees.described(desk, now, span, meanwhile=look.take)
    desired, observation = api.desired_of(tree), look.result()
    if observation is not None:
        observation = api.with_removed(observation, desired, place_of(desk.settings), clock)
    whole = api.plan_of(desired, observation, now=now, horizon=span)
    setting = _setting(desk, tree, observation, whole, took=timedelta(seconds=clock.monotonic() - began))
    return _Made(plan=whole, setting=setting, problems=tree.problems, tree=tree, observation=observation)


class _Look:
    """A look at the fleet that may be taken while the tree is read; what goes wrong with it is told after the tree."""

    def __init__(self, place: Place, clock: Clock) -> None:
        self._place = place
        self._clock = clock
        self._taken: tuple[Observation | None, RelayError | None] | None = None

    def take(self) -> tuple[Observation | None, RelayError | None]:
        """Look, the first time."""
        from relayctl import api

        if self._taken is None:
            try:
                self._taken = api.observe_or_nothing(self._place, self._clock, with_last=False), None
            except RelayError as error:
                self._taken = None, error
        return self._taken

    def result(self) -> Observation | None:
        """What was seen."""
        observation, error = self.take()
        if error is not None:
            raise error
        return observation


def _made_against(desk: Desk, tree: DescribedTree, against: str, now: datetime, horizon: timedelta) -> _Made:
    from relayctl import api
    from relayctl.cli.othertree import read_other
    from relayctl.render.plan import Setting

    other = read_other(desk.settings.apps, against, now=now, horizon=horizon)
    whole = api.compare(api.desired_of(tree), other.desired, now=now, horizon=horizon)
    setting = Setting(
        desired=_desired_words(desk, tree),
        running=other.words,
        width=desk.look.width,
        is_against=True,
        guard=_guard_words(whole, "", None),
        remarks=other.remarks,
    )
    return _Made(plan=whole, setting=setting, problems=tree.problems)


def _saved(desk: Desk, path: Path) -> _Made:
    from relayctl.cli.planfile import read_plan
    from relayctl.render.plan import Setting

    saved = read_plan(path)
    words = saved.words
    setting = Setting(
        desired=words.desired,
        running=words.running,
        guard=words.guard,
        limits=words.limits,
        width=desk.look.width,
        saved=saved,
    )
    return _Made(plan=saved.plan, setting=setting)


def _save(desk: Desk, made: _Made, path: Path) -> None:
    from relayctl.cli.desk import write_private
    from relayctl.cli.planfile import plan_text

    saved = _to_save(desk, made)
    write_private(path, plan_text(saved))
    further = "relayctl apply {} applies it" if made.setting.hint else "relayctl plan --show {} shows it"
    desk.remark(f"plan {saved.short_id} saved to {path}; {further.format(path)}")


def _to_save(desk: Desk, made: _Made) -> SavedPlan:
    import secrets

    from relayctl import api
    from relayctl.core.planfile import SavedPlan, Words
    from relayctl.host.operator import operator

    setting, tree = made.setting, made.tree
    return SavedPlan(
        id=secrets.token_hex(8),
        made_at=made.plan.now,
        by=operator(),
        basis=api.basis(
            made.observation, template="" if tree is None else tree.digest, namespace=desk.settings.namespace
        ),
        plan=made.plan,
        words=Words(desired=setting.desired, running=setting.running, guard=setting.guard, limits=setting.limits),
    )


def _narrowed(whole: Plan, targets: Sequence[str]) -> Plan:
    from relayctl.cli import tree as trees

    known = whole.names()
    for target in targets:
        trees.split_target(target)
        if target not in known:
            raise trees.unknown("app, schedule, event rule or service", target, known)
    return whole.narrowed(targets)


def _setting(desk: Desk, tree: DescribedTree, observation: Observation | None, whole: Plan, took: timedelta) -> Setting:
    from relayctl.api import observed
    from relayctl.cli.fleet import running_of
    from relayctl.cli.foresight import foreseen_of
    from relayctl.render.plan import Setting

    mode = None if observation is None else observation.mode
    recoded, remarks = _shipping(desk, tree, observation, whole)
    return Setting(
        desired=_desired_words(desk, tree),
        running=running_of(observation, desk.settings.namespace),
        took=took,
        width=desk.look.width,
        guard=_guard_words(whole, tree.digest, mode),
        limits=""
        if observation is None
        else observed.limits_not_kept({app.name: app.limits for app in tree.apps}, observation.workers),
        hint="Save:  relayctl plan --out plan.json     Apply:  relayctl apply" if mode == "push" else "",
        recoded=recoded,
        remarks=(*remarks, *foreseen_of(desk.settings, tree.descriptions(), observation, whole.now)),
    )


def _shipping(
    desk: Desk, tree: DescribedTree, observation: Observation | None, whole: Plan
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which apps a release would change in their files alone; and why there can be no release, if so."""
    from relayctl.errors import RelayError

    release = None if observation is None else observation.release
    # Equal trees ship equal files; of others, what git ignores may be all that differs.
    if release is None or release.draft.tree == tree.digest:
        return (), ()
    from relayctl.sources.content import shipped_revisions

    try:
        shipped = shipped_revisions(desk.settings.apps, max_bytes=desk.settings.max_bundle_bytes)
    except RelayError as error:
        return (), (f"relayctl apply would refuse this tree: {error.message}",)
    # What an app with an error ships says nothing: there can be no release of it.
    told = {change.app for change in whole.changes} | {each.broken.app for each in whole.held}
    before = release.revisions
    other = (app for app, revision in shipped.items() if before.get(app, revision) != revision)
    return tuple(sorted(set(other) - told)), ()


def _desired_words(desk: Desk, tree: DescribedTree) -> str:
    from relayctl.core.counting import counted

    valid = tree.descriptions().values()
    apps, schedules = counted(len(valid), "app"), counted(sum(len(app.schedules) for app in valid), "schedule")
    return f"{desk.settings.apps}/ at {tree.digest[:8]} · {apps}, {schedules}"


def _guard_words(whole: Plan, digest: str, mode: str | None) -> str:
    """What would be held back, and the way to agree to it where there is one."""
    from relayctl.core.plan import Action, Item
    from relayctl.core.removal import removal_guard

    guard = removal_guard(whole)
    if not guard or not digest:
        return guard
    if mode != "push":
        return f"{guard}: relayctl reconcile --accept-removals {digest}"
    deeds = [each.action for each in whole.changes if each.item is Item.SCHEDULE]
    removed = deeds.count(Action.REMOVE)
    is_emptied = removed == whole.running and Action.CREATE not in deeds
    return f"{guard}: relayctl apply {'--allow-empty' if is_emptied else f'--max-removals {removed}'}"


def _deliver(desk: Desk, shown: Plan, setting: Setting) -> None:
    from relayctl.cli.desk import to_json
    from relayctl.cli.exits import harmless
    from relayctl.render import plan as render
    from relayctl.render import plandocument, planmarkdown

    # A saved plan, like an older registry, is data that somebody may have written by hand.
    desk.deliver({
        "text": lambda: harmless(render.text(shown, setting)),
        "json": lambda: to_json(plandocument.document(shown, setting)),
        "jsonl": lambda: plandocument.stream(shown, setting),
        "markdown": lambda: planmarkdown.markdown(shown, setting),
    })  # fmt: skip
