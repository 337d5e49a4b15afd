"""How far the code of live apps is here: which revisions serve, which do not yet, and which were refused and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from relayctl.core.facts import BuildRefused
from relayctl.core.release import tree_digest

if TYPE_CHECKING:
    from relayctl.core.facts import Emit
    from relayctl.worker.executor import Executor
    from relayctl.worker.snapshot import Snapshot


class BuildNews:
    """Used by the thread that writes the heartbeat."""

    def __init__(self, executor: Executor, snapshot: Callable[[], Snapshot], emit: Emit) -> None:
        self._executor = executor
        self._snapshot = snapshot
        self._emit = emit
        self._refused: dict[str, tuple[str, str]] = {}
        self._digest = (-1, "")

    def look(self) -> None:
        """Hear what became of builds, and tell of those that were refused."""
        for settled in self._executor.take_settled():
            self._refused.pop(settled.app, None)
            if not settled.is_serving:
                self._refused[settled.app] = (settled.revision, settled.reason)
                self._emit(BuildRefused(app=settled.app, revision=settled.revision[:12], reason=settled.reason))

    def refused(self, snapshot: Snapshot) -> dict[str, str]:
        """The apps whose live code does not load, with the reason."""
        return {
            app: reason
            for app, (revision, reason) in sorted(self._refused.items())
            if app in snapshot.live and snapshot.live[app].revision == revision
        }

    def pending(self, snapshot: Snapshot) -> tuple[str, ...]:
        """The apps whose live code does not serve yet, for whatever reason but that it was refused."""
        serving: Mapping[str, str] = self._executor.serving
        refused = self.refused(snapshot)
        return tuple(
            app
            for app, item in sorted(snapshot.live.items())
            if item.app.handlers() and app not in refused and serving.get(app) != item.revision
        )

    def digest(self, snapshot: Snapshot) -> str:
        """The digest of what is live, by the revisions of the apps."""
        if self._digest[0] != snapshot.seq:
            revisions = {app: item.revision for app, item in snapshot.live.items()}
            self._digest = (snapshot.seq, tree_digest(revisions))
        return self._digest[1]
