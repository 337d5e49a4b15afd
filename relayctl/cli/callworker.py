"""Has a worker of this machine run a handler once: asks one after the other until one takes it, and waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relayctl.errors import ConnectionLost, RelayError, RequestRejected, WorkerUnreachable

if TYPE_CHECKING:
    from relayctl.cli.desk import Desk
    from relayctl.host.requests import Result

_ACCEPT_WITHIN_S = 15.0
_QUIET_FOR_S = 1.0
# Which of several refusals is told: what another moment may cure first, then what is wrong with the demand.
_TOLD_FIRST = ("foreign", "full", "starting", "closing", "unable", "no-handler", "", "no-app")


class _Call:
    """One demand and what the user should know of it while it lasts."""

    def __init__(self, desk: Desk, show: Callable[[str, str], None]) -> None:
        self._desk = desk
        self._show = show
        self._patience: threading.Timer | None = None
        self.has_begun = False
        self.is_accepted = False
        self.is_dropped = False

    def hear(self, event: str) -> None:
        """Something has happened to the demand."""
        self.is_accepted = True
        if event == "queued":
            self._patience = threading.Timer(_QUIET_FOR_S, self._desk.remark, ("waits for a free place of the app",))
            self._patience.daemon = True
            self._patience.start()
        elif event == "started":
            self.has_begun = True
            self.rest()
        elif event == "cancelled":
            self.is_dropped = True

    def show(self, stream: str, line: str) -> None:
        """The handler has printed."""
        self._show(stream, line)

    def rest(self) -> None:
        """Nothing more is said about waiting."""
        if self._patience is not None:
            self._patience.cancel()

    def give_up(self) -> None:
        """Say what becomes of a run that is waited for no longer."""
        if self.has_begun:
            self._desk.remark("the run goes on in the worker, whose log shows how it ends")
        elif self.is_dropped:
            self._desk.remark("the run had not begun, and will not")
        elif self.is_accepted:
            self._desk.remark("the worker did not say whether it drops the run; its log will")


def call(desk: Desk, app: str, name: str, event: str | None, show: Callable[[str, str], None]) -> Mapping[str, Any]:
    """Run it, with its output going to `show`, and answer how it ended. Raises RelayError when no run came of it."""
    from relayctl.cli.workers import sockets
    from relayctl.host.operator import operator

    request = {"app": app, "name": name, "event": event, "by": operator()}
    refusals: list[RelayError] = []
    for path in sockets(desk):
        demand = _Call(desk, show)
        try:
            return _document(_ask(path, request, demand))
        except (RequestRejected, WorkerUnreachable) as refusal:
            if isinstance(refusal, RequestRejected) or path.exists():
                refusals.append(refusal)
        except ConnectionLost:
            # One that left before it took the demand is like one that was not there.
            if demand.is_accepted or path.exists():
                raise
        except BaseException as stop:
            if not isinstance(stop, Exception):
                demand.give_up()
            raise
        finally:
            demand.rest()
    raise _nobody(desk, app, name, refusals)


def _ask(path: Path, request: Mapping[str, Any], demand: _Call) -> Result:
    from relayctl.host.client import submit

    return submit(path, "invoke", request, demand.hear, within_s=_ACCEPT_WITHIN_S, on_line=demand.show)


def _document(result: Result) -> Mapping[str, Any]:
    if result.document.get("outcome"):
        return result.document
    if result.reason == "cancelled":
        raise RelayError("the worker is stopping, and the run did not begin", help=result.help or None)
    raise RelayError(f"the worker could not run it: {result.reason}", help=result.help or "its log may say why")


def _nobody(desk: Desk, app: str, name: str, refusals: Sequence[RelayError]) -> RelayError:
    """The error when no worker took it."""
    from relayctl.cli.tree import unknown
    from relayctl.cli.workers import no_worker

    target = f"{app}/{name}" if name else app
    here = f"run it without one: relayctl invoke {target} --local"
    if not refusals:
        missing = no_worker(desk)
        return WorkerUnreachable(missing.message, help=f"{missing.help};\n{here}")
    told = min(refusals, key=_rank)
    reason = told.reason if isinstance(told, RequestRejected) else ""
    known = told.known if isinstance(told, RequestRejected) else ()
    if reason == "no-handler":
        return unknown("schedule or handler" if name else "handler", target, [f"{app}/{item}" for item in known])
    if reason == "no-app":
        return unknown("running app", app, known)
    return told


def _rank(refusal: RelayError) -> int:
    reason = refusal.reason if isinstance(refusal, RequestRejected) else ""
    return _TOLD_FIRST.index(reason) if reason in _TOLD_FIRST else 0
