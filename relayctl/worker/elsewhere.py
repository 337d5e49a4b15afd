"""The event rules of apps that lie in this worker's tree and that it is not for: with `--only`, peers run these.

Whoever reads an event decides once what it owes, so a worker must know the rules of all. Nothing of these apps is run,
armed or registered here, and their code is not looked at.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING

from relayctl.templates.find import TEMPLATE, AppDirectory, FileHashes, find_apps
from relayctl.templates.load import check_text

if TYPE_CHECKING:
    from relayctl.core.model import App
    from relayctl.sources.source import Source


class Elsewhere:
    """Used by the reconciler's thread; `apps` and `unread` are replaced whole, and may be read from any."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._hashes = FileHashes()
        self._seen: dict[str, tuple[bytes, App | None]] = {}
        self.apps: Mapping[str, App] = {}
        """As they are in the tree, or were when their templates had no errors."""
        self.unread: frozenset[str] | None = None if source.is_partial else frozenset()
        """Those whose rules are not known here; None while that is true of all."""

    def look(self) -> None:
        """Read what changed. A tree that cannot be read leaves everything as it was."""
        if not self._source.is_partial:
            return
        tree = find_apps(self._source.root)
        if tree.trouble is not None:
            return
        others = [app for app in tree.apps if not self._source.is_wanted(app.name)]
        known = {app.name: self._app(app) for app in others}
        for name in self._seen.keys() - known.keys():
            del self._seen[name]
        self.apps = {name: app for name, app in known.items() if app is not None}
        self.unread = frozenset(name for name, app in known.items() if app is None)

    def _app(self, found: AppDirectory) -> App | None:
        before, last_good = self._seen.get(found.name, (b"", None))
        template = found.real / TEMPLATE
        try:
            status = template.stat()
            if not stat.S_ISREG(status.st_mode):
                return last_good
            digest = self._hashes.of(str(template), status)
            if digest == before:
                return last_good
            app, _, _ = check_text(template.read_bytes(), template.as_posix(), found.name, None, None)
        except OSError:
            return last_good
        self._seen[found.name] = (digest, app or last_good)
        return app or last_good
