"""Where this worker's apps come from, by its settings: exactly one source, and what tells of changes in it.

It makes them and fetches once where there is nothing to start with; what is seen is the reconciler's business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.core.facts import Emit, LoopFailed
from relayctl.errors import SourceUnavailable, UnknownTarget, UsageError
from relayctl.settings import Origin, own_environ
from relayctl.sources.directory import DirectorySource
from relayctl.sources.places import Place
from relayctl.sources.puller import LONGEST_PAUSE_S, Puller
from relayctl.sources.watch import DirectoryWatch

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.host.state import StateDir
    from relayctl.settings import Settings
    from relayctl.sources.fetched import FetchedSource
    from relayctl.sources.source import Hint, Source, Watch
    from relayctl.store.target import Target

_FIRST_WITHIN_S = 30.0
"""A start waits so long for the first fetch; after that it goes on without."""
_RELEASE_POLL = timedelta(seconds=1)
_OF_GIT = {"git_ref": "--ref", "git_path": "--path", "git_interval": "--git-interval"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What `serve` was told of its source, beyond the settings."""

    only: Collection[str] = ()
    is_following: bool = False
    is_polling: bool = False
    is_once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """A source and what watches it, which is made once it is known who wants its hints."""

    source: Source
    watch: Callable[[Hint], Watch]
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rhythm:
    """When a source that is fetched is asked, as `Puller` takes it."""

    interval: timedelta | None
    longest_s: float = LONGEST_PAUSE_S
    first_s: Callable[[], float] = lambda: 0.0
    has_news: Callable[[], bool] | None = None


def check_choice(settings: Settings, *, is_following: bool) -> None:
    """Raises UsageError where more than one source is named, or something that no named source takes."""
    is_apps_flag = settings.origins["apps"] is Origin.FLAG
    named = [flag for flag, is_named in (
        ("--apps", is_apps_flag), ("--git", settings.git is not None), ("--follow", is_following),
    ) if is_named]  # fmt: skip
    if len(named) > 1:
        raise UsageError(
            f"a worker has one source, and {' and '.join(named)} name {len(named)}",
            help="--apps DIR is a directory, --git URL a repository, --follow what relayctl apply publishes; "
            "RELAYCTL_GIT counts as --git",
        )
    if settings.git is None:
        stray = [flag for key, flag in _OF_GIT.items() if settings.origins[key] is Origin.FLAG]
        if stray:
            raise UsageError(f"{stray[0]} says something about a repository, and none is named", help="add --git URL")
    if settings.webhook_secret_file is not None and settings.origins["webhook_secret_file"] is Origin.FLAG:
        lacking = "--git" if settings.git is None else "--http" if settings.http is None else ""
        if lacking:
            raise UsageError(
                f"--webhook-secret-file is for POST /hooks/git, which needs {lacking}", help=f"add {lacking}"
            )


def open_feed(
    settings: Settings, wish: Wish, state: StateDir, clock: Clock, emit: Emit, *, is_asked: Callable[[], bool]
) -> Feed:
    """The source that was chosen. `is_asked` ends the wait for a first fetch.

    Raises UsageError for what cannot be followed, UnknownTarget for an app that is not there, SourceUnavailable where
    a run that ends by itself has nothing to run, FileFailure where a token cannot be read.
    """
    if settings.git is not None:
        return _git_feed(settings, wish, state, clock, emit, is_asked)
    source = DirectorySource(settings.apps, clock, only=wish.only)
    check_only(source, wish.only)

    def watch(hint: Hint) -> DirectoryWatch:
        return DirectoryWatch(
            settings.apps,
            debounce_ms=settings.debounce // timedelta(milliseconds=1),
            is_polling=wish.is_polling,
            clock=clock,
            on_hint=hint,
            on_trouble=lambda reason: emit(LoopFailed(loop="watch", reason=reason)),
        )

    return Feed(source=source, watch=watch)


def _git_feed(
    settings: Settings, wish: Wish, state: StateDir, clock: Clock, emit: Emit, is_asked: Callable[[], bool]
) -> Feed:
    from relayctl.sources.git import GitSource
    from relayctl.sources.gitcommand import GitCommand
    from relayctl.sources.gitplace import git_place
    from relayctl.templates.find import digest_of

    assert settings.git is not None
    place = git_place(settings.git, settings.git_ref, settings.git_path, settings.git_token_file)
    # Now, while somebody looks: later it would be one more failed fetch.
    place.credentials()
    identity = "\0".join((settings.git, settings.git_ref, settings.git_path))
    folder: Path = state.path / "git" / digest_of(identity.encode())[:16]
    git, interval = GitCommand(own_environ()), settings.git_interval
    with ExitStack() as stack:
        stack.callback(_followed(folder, clock).close)
        source = GitSource(place, folder, git, clock, emit, interval=interval, only=wish.only)
        feed = _pulled_feed(source, wish, clock, is_asked, _Rhythm(
            interval=interval, first_s=source.first_s, has_news=source.has_news,
        ))  # fmt: skip
        return replace(feed, close=stack.pop_all().close)


def _followed(folder: Path, clock: Clock) -> Place:
    """This folder in use, and without those beside it that nobody follows any more."""
    place = Place(folder, clock)
    place.sweep()
    return place


def open_releases(
    settings: Settings,
    wish: Wish,
    state: StateDir,
    target: Target,
    clock: Clock,
    emit: Emit,
    *,
    is_asked: Callable[[], bool],
) -> Feed:
    """The releases of this namespace, asked for over a connection of their own. Raises as `open_feed`."""
    from relayctl.sources.release import ReleaseSource
    from relayctl.store.connect import connect
    from relayctl.store.keys import Keys
    from relayctl.store.releases import Releases

    folder = state.path / "releases" / settings.namespace
    limit = settings.max_bundle_bytes
    with ExitStack() as stack:
        stack.callback(_followed(folder, clock).close)
        client = connect(target, client_name="relayctl-releases")
        stack.callback(client.close)
        releases = Releases(client, Keys(settings.namespace))
        source = ReleaseSource(releases, settings.namespace, folder, clock, emit, max_bytes=limit, only=wish.only)
        rhythm = _Rhythm(interval=_RELEASE_POLL, longest_s=_RELEASE_POLL.total_seconds() * 5)
        feed = _pulled_feed(source, wish, clock, is_asked, rhythm)
        return replace(feed, close=stack.pop_all().close)


def _pulled_feed(
    source: FetchedSource, wish: Wish, clock: Clock, is_asked: Callable[[], bool], rhythm: _Rhythm
) -> Feed:
    is_known, is_fresh = source.recall(), False
    if wish.is_once:
        source.demand()
    if wish.is_once or not is_known:
        until = clock.monotonic() + _FIRST_WITHIN_S
        is_fresh = source.pull(lambda: is_asked() or clock.monotonic() > until)
    trouble = source.look().trouble
    if trouble is not None and wish.is_once:
        raise SourceUnavailable(f"{source.label}: {trouble}", help="nothing was run; look at the source, and try again")
    check_only(source, wish.only)
    puller = Puller(
        source.pull,
        interval=rhythm.interval,
        clock=clock,
        first_s=None if is_fresh else rhythm.first_s(),
        longest_s=rhythm.longest_s,
        has_news=rhythm.has_news,
    )
    source.on_demand = puller.demand

    def watch(hint: Hint) -> Puller:
        source.on_hint = hint
        return puller

    return Feed(source=source, watch=watch)


def check_only(source: Source, only: Collection[str]) -> None:
    """A name that no app has is a slip, and a worker that waits for it would run nothing."""
    view = source.look()
    missing = [] if view.trouble is not None else sorted(set(only) - set(view.apps))
    if missing:
        raise UnknownTarget(
            f'no app "{missing[0]}" in {source.label}', help="--only takes the name of a directory with a template"
        )
