"""The releases of a namespace as a source: what `relayctl apply` published last, verified and unpacked here.

It takes every release, since whoever published it was asked; an app that this relayctl cannot read keeps its last one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.core.facts import Emit
from relayctl.core.release import Release
from relayctl.errors import BrokerError, SourceUnavailable
from relayctl.host.wholefile import write_whole
from relayctl.sources.bundle import unpack
from relayctl.sources.fetched import FetchedSource, Tree
from relayctl.sources.source import SourceStanding, View

if TYPE_CHECKING:
    from relayctl.host.clock import Clock
    from relayctl.store.releases import Releases

RECORD_VERSION = 1
_BUNDLE = "bundle"
_APPS = "apps"
_NONE_YET = "no release has been published yet"
_AWAITS = "waiting for a first release: relayctl apply publishes one"


class ReleaseSource(FetchedSource):
    """Follows the release in force. A revision's directory is named by the digest of its bundle."""

    mode = "push"

    def __init__(
        self,
        releases: Releases,
        namespace: str,
        folder: Path,
        clock: Clock,
        emit: Emit,
        *,
        max_bytes: int,
        only: Collection[str] = (),
    ) -> None:
        """As `FetchedSource`; `max_bytes` bounds a bundle as it is packed."""
        super().__init__(folder, clock, emit, only)
        self._releases = releases
        self._namespace = namespace
        self._record = folder / "release.json"
        self._max_bytes = max_bytes
        self._release: Release | None = None
        self._is_awaited = False

    @property
    def label(self) -> str:
        """What it is called in messages."""
        return f"releases of {self._namespace}"

    def look(self, touched: Collection[str] | None = None) -> View:
        """The release in force. What it removes was agreed to when it was published."""
        seen = super().look(touched)
        if self._is_awaited and seen.trouble is not None:
            return replace(seen, trouble=_NONE_YET, is_awaited=True)
        return replace(seen, is_agreed=True)

    @property
    def standing(self) -> SourceStanding:
        """As every source; that nothing was published yet is no trouble."""
        return replace(super().standing, awaits=_AWAITS if self._is_awaited else "")

    def recall(self) -> bool:
        """As every source, and with the record of that release, in case the broker has lost it."""
        is_known = super().recall()
        if is_known and self._tree is not None:
            known = self._recorded()
            self._release = known if known is not None and known.digest == self._tree.revision else None
        return is_known

    def _root_in(self, directory: Path) -> Path:
        return directory / _APPS

    def _fill(self, revision: str, directory: Path) -> None:
        data = self._releases.bundle(revision)
        if data is None:
            raise SourceUnavailable(f"the bundle {revision[:12]} is not kept any more")
        unpack(data, revision, directory / _APPS, max_bytes=self._max_bytes)
        (directory / _BUNDLE).write_bytes(data)

    def _fetch(self, is_over: Callable[[], bool]) -> None:  # noqa: ARG002  every call is short
        try:
            self._follow()
        except BrokerError as error:
            # Of a broker that is away others tell, and what is in force there cannot have changed meanwhile.
            if self._tree is None or not error.is_retryable:
                raise

    def _follow(self) -> None:
        serial, known = self._releases.serial(), self._release
        if known is not None and serial == known.serial:
            return
        if known is not None and serial < known.serial:
            self._offer(known)
            return
        release = self._releases.current()
        self._is_awaited = release is None and not serial and self._tree is None
        if release is not None:
            self._take(release)
        elif serial:
            raise SourceUnavailable(f"release {serial} was made by a newer relayctl", help="upgrade relayctl here")

    def _take(self, release: Release) -> None:
        if self._tree is not None and self._tree.revision == release.digest:
            # The same content again: nothing of it is touched.
            tree = replace(self._tree, since=self._clock.now().replace(microsecond=0))
        else:
            tree = self._judged(release.digest)
        was, self._release = self._release, release
        self._put_in_force(tree, lambda revision: self._named(revision, was))

    def _named(self, revision: str, was: Release | None = None) -> str:
        found = [each for each in (was, self._release) if each is not None and each.digest == revision]
        return f"release {found[0].serial}" if found else super()._named(revision)

    def _offer(self, release: Release) -> None:
        """The broker has lost what this worker runs."""
        if self._tree is not None:
            self._releases.offer(release, (self._tree.root.parent / _BUNDLE).read_bytes())

    def _note_down(self, tree: Tree) -> None:
        super()._note_down(tree)
        if self._release is not None:
            self._remember(self._release)

    def _remember(self, release: Release) -> None:
        document = {"v": RECORD_VERSION, "serial": release.serial, "record": release.record}
        write_whole(self._record, json.dumps(document).encode())

    def _recorded(self) -> Release | None:
        try:
            document = json.loads(self._record.read_bytes())
            if document["v"] != RECORD_VERSION:
                return None
            return Release.from_record(int(document["serial"]), document["record"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None
