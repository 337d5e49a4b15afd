"""What `apply` and `rollback` share: show the plan, ask, publish, wait for the workers. It decides none of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relayctl.api.applying import Author, ReleaseDesk
    from relayctl.api.convergence import Convergence
    from relayctl.api.proposal import Proposal
    from relayctl.cli.desk import Desk
    from relayctl.cli.terms import Terms
    from relayctl.core.planfile import SavedPlan
    from relayctl.core.release import LeaseHolder, Release
    from relayctl.render.plan import Setting
    from relayctl.render.releases import Applied
    from relayctl.sources.content import Content


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be published and how. `read` gives the content."""

    read: Callable[[ReleaseDesk], AbstractContextManager[Content]]
    command: str
    wanted: str
    terms: Terms
    saved: SavedPlan | None = None


@dataclass(slots=True)
class _Progress:
    """What has been done so far, in words for somebody who interrupts."""

    words: str = "nothing was changed"
    is_published: bool = False


def carry_out(desk: Desk, order: Order) -> None:
    """The whole way. Raises what the steps raise, and Ended(NOT_CONVERGED) where a worker has not taken the release."""
    from relayctl.api.applying import release_desk
    from relayctl.cli.exits import Terminated
    from relayctl.cli.fleet import place_of
    from relayctl.errors import RelayError, UsageError
    from relayctl.host.clock import SystemClock

    if not order.terms.is_agreed and not desk.may_ask:
        raise UsageError(
            "nobody can be asked here whether this is meant", help=f"agree beforehand: {order.wanted} --yes"
        )
    _form(desk)
    progress = _Progress()
    try:
        with release_desk(place_of(desk.settings), SystemClock()) as releases:
            releases.check_mode()
            try:
                _in_steps(desk, releases, order, progress)
            finally:
                releases.unlock()
    except (KeyboardInterrupt, Terminated, BrokenPipeError):
        desk.complain(progress.words)
        raise
    except RelayError as error:
        if progress.is_published:
            desk.complain(progress.words)
        _tell(desk, "apply_errored", message=error.message, published=progress.is_published)
        raise


def _in_steps(desk: Desk, releases: ReleaseDesk, order: Order, progress: _Progress) -> None:
    from relayctl.api.proposal import check_removals
    from relayctl.cli.fleet import warn_unreplicated
    from relayctl.cli.tree import say_broken
    from relayctl.errors import InvalidTemplates
    from relayctl.host.clock import SystemClock

    clock = SystemClock()
    began = clock.monotonic()
    if order.terms.is_agreed:
        # Nobody looks at the plan before it is done, so it may be made when it is this one's turn.
        _lock(desk, releases, order)
    with order.read(releases) as content:
        if say_broken(desk, content.tree.problems):
            raise InvalidTemplates("nothing was changed: a release is the whole tree or nothing")
        proposal = releases.propose(content, desk.now())
        if order.saved is not None:
            releases.check_saved(order.saved, proposal)
        if not proposal.is_needed:
            _deliver_unchanged(desk, proposal)
            return
        _show(desk, proposal)
        if proposal.is_lost:
            desk.remark(f"the bundle of release {proposal.base} is gone or damaged: what it held is published again")
        check_removals(proposal, order.terms.limits)
        asked_at = clock.monotonic()
        if not order.terms.is_agreed:
            _ask(desk, proposal)
            _lock(desk, releases, order)
        began += clock.monotonic() - asked_at
        progress.words = "interrupted while publishing: relayctl releases tells whether the release stands"
        _tell(desk, "apply_start", base=proposal.base, digest=content.bundle.digest)
        release = releases.publish(proposal, _author(order), saved=order.saved)
    progress.words = f"release {release.serial} stands; its workers were not waited for: relayctl status"
    progress.is_published = True
    releases.unlock()
    _tell(desk, "apply_complete", release=release.serial, previous=proposal.base, digest=release.digest)
    warn_unreplicated(desk, releases.replicated)
    _conclude(desk, releases, order, proposal, release, began)


def _lock(desk: Desk, releases: ReleaseDesk, order: Order) -> None:
    def on_wait(holder: LeaseHolder) -> None:
        desk.remark(f"waiting for {holder.by} pid {holder.pid} ({holder.command}) to publish first")
        _tell(desk, "lock", by=holder.by, pid=holder.pid, command=holder.command)

    releases.lock(_author(order), order.terms.lock_timeout, on_wait)


def _author(order: Order) -> Author:
    import os

    from relayctl.api.applying import Author
    from relayctl.host.operator import operator

    return Author(by=operator(), pid=os.getpid(), command=order.command, message=order.terms.message)


def _show(desk: Desk, proposal: Proposal) -> None:
    from relayctl.cli.exits import harmless
    from relayctl.render import plan as render
    from relayctl.render import plandocument

    form, setting = _form(desk), _setting(desk, proposal)
    if form == "text":
        desk.tell(harmless(render.text(proposal.plan, setting)))
        desk.tell("\n")
    elif form == "jsonl":
        desk.tell(plandocument.stream(proposal.plan, setting), is_json=True)


def _form(desk: Desk) -> str:
    return desk.format(dict.fromkeys(("text", "json", "jsonl"), str))


def _tell(desk: Desk, kind: str, **fields: object) -> None:
    """A line of the stream, where that is the form asked for."""
    from relayctl.render.releases import stream_line

    if _form(desk) == "jsonl":
        desk.tell(stream_line(kind, desk.now(), **fields), is_json=True)


def _setting(desk: Desk, proposal: Proposal) -> Setting:
    from relayctl.api import observed
    from relayctl.cli.fleet import running_of
    from relayctl.cli.foresight import foreseen_of
    from relayctl.core.counting import counted
    from relayctl.render.plan import Setting

    content, observation = proposal.content, proposal.observation
    source = f"{desk.settings.apps}/" if content.rolls_back_to is None else f"release {content.rolls_back_to}"
    at = f"{content.commit[:8]} (clean)" if content.commit else content.tree.digest[:8]
    apps, schedules = counted(len(content.tree.apps), "app"), counted(content.schedules, "schedule")
    return Setting(
        desired=f"{source} at {at} · {apps}, {schedules}",
        running=running_of(observation, desk.settings.namespace),
        width=desk.look.width,
        recoded=proposal.recoded,
        remarks=foreseen_of(desk.settings, content.tree.descriptions(), observation, proposal.plan.now),
        limits=observed.limits_not_kept({app.name: app.limits for app in content.tree.apps}, observation.workers),
    )


def _ask(desk: Desk, proposal: Proposal) -> None:
    import sys

    from typer import Abort

    from relayctl.render.releases import question

    sys.stderr.write(question(proposal.plan, proposal.recoded, desk.settings.namespace))
    sys.stderr.flush()
    try:
        answer = sys.stdin.readline()
    except BaseException:
        sys.stderr.write("\n")
        raise
    if answer.strip().lower() != "yes":
        raise Abort


def _deliver_unchanged(desk: Desk, proposal: Proposal) -> None:
    from relayctl.cli.desk import to_json
    from relayctl.render import releases as render

    observation = proposal.observation
    desk.deliver({
        "text": lambda: render.unchanged_text(
            proposal.current, proposal.content.schedules, observation.on_release, len(observation.workers)
        ),
        "json": lambda: to_json({"v": render.RELEASES_VERSION, "applied": False, "release": None}),
        "jsonl": lambda: render.stream_line("apply_summary", desk.now(), applied=False),
    })  # fmt: skip


def _conclude(
    desk: Desk, releases: ReleaseDesk, order: Order, proposal: Proposal, release: Release, began: float
) -> None:
    """Wait for the workers, say what was done, and end with the code that fits."""
    from relayctl.cli.desk import to_json
    from relayctl.cli.exits import Code, Ended, harmless
    from relayctl.host.clock import SystemClock
    from relayctl.render import releases as render

    clock, found = SystemClock(), None
    waits_from = clock.monotonic()
    if order.terms.waits is not None:
        found = releases.await_convergence(release, order.terms.waits)
    done = render.Applied(
        release=release,
        plan=proposal.plan,
        recoded=proposal.recoded,
        previous=proposal.base,
        lacks=None if found is None else found.lacks,
        waited=timedelta(seconds=clock.monotonic() - waits_from),
        took=timedelta(seconds=clock.monotonic() - began),
    )
    desk.deliver({
        "text": lambda: harmless(render.applied_text(done)),
        "json": lambda: to_json(render.applied_document(done)),
        "jsonl": lambda: render.applied_stream(done, desk.now()),
    })  # fmt: skip
    if found is not None and not found.is_done:
        _complain(desk, done, found)
        raise Ended(Code.NOT_CONVERGED)


def _complain(desk: Desk, done: Applied, found: Convergence) -> None:
    from relayctl.cli.exits import lines_of
    from relayctl.errors import NotConverged
    from relayctl.render.releases import not_converged_words

    help_text = "relayctl status --workers tells more"
    if done.previous and not found.superseded_by:
        help_text += f"\nor back: relayctl rollback {done.previous}"
    desk.complain(*lines_of(NotConverged(not_converged_words(done, found.superseded_by), help=help_text)))
