"""The apps of a worker's tree as they were loaded last, each version once: what can run, what is broken, what is none.

It decides nothing about what runs; of what went live it keeps no text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.worker.snapshot import LiveApp

if TYPE_CHECKING:
    from relayctl.core.problem import Problem
    from relayctl.sources.source import Source, View
    from relayctl.templates.load import Loaded


class KnownTree:
    """Used by the reconciler's thread alone."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._loaded: dict[str, tuple[str, Loaded]] = {}
        self.misfits: dict[str, Problem] = {}
        """Directories that are meant to be apps and cannot be read as such: their absence removes nothing."""

    def look(self, view: View) -> None:
        """Load what has another digest than before, and forget what is gone."""
        self.misfits = self.misfits_of(view)
        for name, sighting in view.apps.items():
            known = self._loaded.get(name)
            if known is None or known[0] != sighting.digest:
                self._loaded[name] = (sighting.digest, self._source.load(name))
        for name in self._loaded.keys() - view.apps.keys():
            del self._loaded[name]

    def misfits_of(self, view: View) -> dict[str, Problem]:
        """The misfits of a view, by the name that each would have."""
        found: dict[str, Problem] = {}
        for problem in view.problems:
            place = Path(problem.place.file)
            if problem.is_error and place.is_relative_to(self._source.root):
                found.setdefault(place.relative_to(self._source.root).parts[0], problem)
        return found

    def runnable(self, view: View) -> dict[str, LiveApp]:
        """What would run of it, where `view` says that it lies."""
        return {
            name: LiveApp(
                app=loaded.app,
                revision=digest,
                template=loaded.template_digest,
                directory=view.apps[name].directory,
                place=view.apps[name].place,
            )
            for name, (digest, loaded) in self._loaded.items()
            if loaded.app is not None
        }

    @property
    def names(self) -> set[str]:
        """The apps that were loaded, broken ones too."""
        return set(self._loaded)

    @property
    def known(self) -> set[str]:
        """These and the misfits: all that is there."""
        return self._loaded.keys() | self.misfits.keys()

    @property
    def broken(self) -> dict[str, tuple[str, Loaded]]:
        """The apps whose newest files have errors, with their digests."""
        return {name: each for name, each in self._loaded.items() if each[1].app is None}

    def went_live(self, names: Collection[str]) -> Iterator[Loaded]:
        """Those of these apps that are loaded, as they were read; they are kept without their text from now on."""
        for name in self._loaded.keys() & names:
            digest, loaded = self._loaded[name]
            yield loaded
            self._loaded[name] = (digest, replace(loaded, text=b""))
