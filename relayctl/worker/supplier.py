"""What the reconciler asks before it puts apps in force: the environment of each, or to wait for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import threading

    from relayctl.core.unbuilt import UnbuiltApp
    from relayctl.worker.snapshot import LiveApp


class Supplier(Protocol):
    """Answers at once; what takes time goes on in its loop, and the reconciler is woken when that is done."""

    @property
    def unbuilt(self) -> tuple[UnbuiltApp, ...]:
        """The apps that wait, by name. For any thread."""
        ...

    def provide(self, wanted: Mapping[str, LiveApp]) -> tuple[dict[str, LiveApp], frozenset[str]]:
        """Those that can go live, each with its environment, and the names of those that have to wait."""
        ...

    def revive(self, found: Mapping[str, LiveApp]) -> dict[str, LiveApp]:
        """Apps that run as they were last good, each with the environment that it had then."""
        ...

    def in_force(self, live: Mapping[str, LiveApp], changed: Collection[str]) -> None:
        """These apps run now; the `changed` ones are new, other than before or gone."""
        ...

    def retry(self) -> None:
        """Somebody may have mended something: try at once what failed. For any thread."""
        ...

    def run(self, stop: threading.Event) -> None:
        """The loop, until `stop` is set; whoever sets it also calls `wake`."""
        ...

    def wake(self) -> None:
        """Make the loop come round now."""
        ...


class AsTheyAre:
    """Nothing is built: every app runs on what the worker itself runs on."""

    unbuilt: tuple[UnbuiltApp, ...] = ()

    def provide(self, wanted: Mapping[str, LiveApp]) -> tuple[dict[str, LiveApp], frozenset[str]]:
        return dict(wanted), frozenset()

    def revive(self, found: Mapping[str, LiveApp]) -> dict[str, LiveApp]:
        return dict(found)

    def in_force(self, live: Mapping[str, LiveApp], changed: Collection[str]) -> None:
        pass

    def retry(self) -> None:
        pass

    def run(self, stop: threading.Event) -> None:
        stop.wait()

    def wake(self) -> None:
        pass
