"""What the release in force binds this worker's apps to, and which of them it therefore leaves to its peers.

It reads and remembers. The scheduler asks it before it publishes; who admits is decided by the claiming script itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from relayctl.core.facts import BoundElsewhere
from relayctl.store.releases import Releases

if TYPE_CHECKING:
    from relayctl.core.facts import Emit
    from relayctl.host.clock import Clock
    from relayctl.worker.snapshot import Snapshot

TOLD_AFTER_S = 10.0
"""A worker that takes a new release is through by then, and there is nothing to tell."""
TOLD_EVERY_S = 600.0
_SHOWN = 8


class Binding:
    """`look` is for one thread, the rest may be asked from any."""

    def __init__(
        self,
        releases: Releases,
        snapshot: Callable[[], Snapshot],
        clock: Clock,
        emit: Emit,
        on_news: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_news` is called when another release is in force."""
        self._releases = releases
        self._snapshot = snapshot
        self._clock = clock
        self._emit = emit
        self._on_news = on_news
        self._serial = 0
        self._pins: Mapping[str, str] = {}
        self._foreign_since: dict[str, float] = {}
        self._told_at: dict[str, float] = {}

    def look(self) -> bool:
        """Ask what is in force, and tell of apps that have been bound elsewhere for a while; whether it is another
        release than before. Raises BrokerError."""
        serial = self._releases.serial()
        is_news = serial != self._serial
        if is_news:
            # The revisions first: whoever asks in between may wait for nothing, and must not publish for once.
            self._pins, self._serial = self._releases.pins(), serial
            self._on_news()
        self._tell()
        return is_news

    def is_elsewhere(self, app: str) -> bool:
        """Whether a release binds the fleet to another revision of that app than this worker has."""
        pinned, live = self._pins.get(app), self._snapshot().live.get(app)
        return pinned is not None and live is not None and live.revision != pinned

    @property
    def notes(self) -> tuple[str, ...]:
        """What the fleet's status is to say of it."""
        live = self._snapshot().live
        return tuple(
            f"{app}: this is revision {live[app].revision[:_SHOWN]}, and release {self._serial} binds the fleet to "
            f"{self._pins[app][:_SHOWN]}: it publishes and admits nothing of {app}"
            for app in sorted(self._told_at)
            if app in live and self.is_elsewhere(app)
        )

    def _tell(self) -> None:
        now, live = self._clock.monotonic(), self._snapshot().live
        foreign = [app for app in live if self.is_elsewhere(app)]
        self._foreign_since = {app: self._foreign_since.get(app, now) for app in foreign}
        self._told_at = {app: at for app, at in self._told_at.items() if app in self._foreign_since}
        for app, since in self._foreign_since.items():
            told_at = self._told_at.get(app)
            if now - since < TOLD_AFTER_S or (told_at is not None and now - told_at < TOLD_EVERY_S):
                continue
            self._told_at[app] = now
            self._emit(
                BoundElsewhere(
                    app=app,
                    revision=live[app].revision[:12],
                    pinned=self._pins[app][:12],
                    release=self._serial,
                )
            )
