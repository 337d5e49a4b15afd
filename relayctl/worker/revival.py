"""What runs of an app that cannot be read and was not live here before: the last good version that was kept of it.

It only brings kept texts and live apps together; the reconciler decides when one counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from relayctl.worker.snapshot import LiveApp

if TYPE_CHECKING:
    from relayctl.sources.lastgood import LastGood
    from relayctl.sources.source import Source
    from relayctl.templates.load import Loaded


class Revival:
    """Used by the reconciler's thread. Without `kept` there is nothing to revive."""

    def __init__(self, kept: LastGood | None, source: Source) -> None:
        self._kept = kept
        self._source = source
        self._hopeless: set[str] = set()
        self._noted: dict[str, bytes] = {}

    def of(self, names: Collection[str]) -> dict[str, LiveApp]:
        """These apps as they were last good, where that is known. In vain each is looked for once while it is named."""
        self._hopeless &= set(names)
        found: dict[str, LiveApp] = {}
        for name in names:
            if self._kept is None or name in self._hopeless:
                continue
            stored = self._kept.load(name)
            if stored is None:
                self._hopeless.add(name)
            else:
                found[name] = LiveApp(
                    app=stored.app,
                    revision=stored.revision,
                    template=stored.template_digest,
                    directory=stored.directory,
                )
        return found

    @property
    def is_any(self) -> bool:
        """Whether anything is kept that this worker is for."""
        return self._kept is not None and any(self._source.is_wanted(name) for name in self._kept.names())

    def everything(self) -> dict[str, LiveApp]:
        """The whole last good tree, as far as this worker is for it."""
        names = frozenset[str]() if self._kept is None else self._kept.names()
        return self.of({name for name in names if self._source.is_wanted(name)})

    def note(self, loaded: Loaded) -> None:
        """This went live as it was read. What has no text is broken, or was noted before."""
        if self._kept is not None and loaded.text:
            self._noted[loaded.name] = loaded.text

    def keep(self) -> None:
        """Write down what was noted."""
        if self._kept is not None:
            noted, self._noted = self._noted, {}
            self._kept.keep(noted)

    def forget(self, names: Iterable[str]) -> None:
        """The removal of these is in force."""
        if self._kept is not None:
            self._kept.forget(names)

    def forget_others(self, known: Collection[str]) -> None:
        """What is in neither the tree nor the fleet's hands here left while no worker looked."""
        if self._kept is not None:
            self._kept.forget(self._kept.names() - set(known))
