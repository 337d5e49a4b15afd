"""Which live apps name secrets that cannot be had here, in words for the worker's record. Keeps no value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from relayctl.errors import RelayError

if TYPE_CHECKING:
    from relayctl.runners.build import Build


class SecretWatch:
    """Looks where it is told to, from the loop that may wait for a disk; what it found can be had from any thread."""

    unresolved: Mapping[str, tuple[str, ...]]
    """App to what is wrong with each of its secrets that no run gets here, as of the last look; the others are left
    out. Replaced whole."""

    def __init__(self, resolve: Callable[[str], str]) -> None:
        """`resolve` gives the value of a reference, or raises what says why it has none."""
        self._resolve = resolve
        self._references: dict[str, tuple[str, ...]] = {}
        self.unresolved = {}

    def deploy(self, builds: Sequence[Build]) -> None:
        """These builds are in force."""
        for build in builds:
            self._references[build.app] = tuple(sorted({reference for _, reference in build.secrets}))
        self.look()

    def retire(self, apps: Sequence[str]) -> None:
        """These apps run no handlers any more."""
        for app in apps:
            self._references.pop(app, None)
        self.look()

    def look(self) -> None:
        """Read them all again: a value may have come or gone."""
        wanted = {each for names in self._references.values() for each in names}
        troubles = {each: self._trouble(each) for each in wanted}
        found = {
            app: tuple(troubles[each] for each in names if troubles[each]) for app, names in self._references.items()
        }
        self.unresolved = {app: texts for app, texts in sorted(found.items()) if texts}

    def _trouble(self, reference: str) -> str:
        try:
            self._resolve(reference)
        except RelayError as error:
            return "; ".join(part for part in (error.message, error.help) if part)
        return ""
