"""How a worker is reached on its own machine: the control socket, the HTTP probes, and what each may ask.

It starts before the worker's loops and ends after them, so that a start that takes long and a drain can be watched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from relayctl.core.facts import ControlUsed, Emit
from relayctl.core.health import HealthReport, State
from relayctl.errors import RequestRejected, UsageError
from relayctl.host.http import HttpServer, Request, Response, Route
from relayctl.host.requests import asker
from relayctl.host.socket import MAX_REQUEST_BYTES, ControlSocket
from relayctl.worker.webhook import PATH as HOOK_PATH

if TYPE_CHECKING:
    import threading

    from relayctl.host.clock import Clock
    from relayctl.host.requests import Course, Document
    from relayctl.host.state import StateDir
    from relayctl.worker.health import Vitals
    from relayctl.worker.invoker import Invoker
    from relayctl.worker.metrics import Metrics
    from relayctl.worker.webhook import GitHook
    from relayctl.worker.worker import Worker

_SHORTEST_REVISION = 8


class Control:
    """The control socket and, where an address is given, the HTTP server of one worker."""

    def __init__(
        self,
        worker: Worker,
        vitals: Vitals,
        state: StateDir,
        *,
        invoker: Invoker,
        http: str | None,
        metrics: Metrics | None,
        hook: GitHook | None = None,
        clock: Clock,
        emit: Emit,
    ) -> None:
        """Binds `http` at once: an address that cannot be had is an error before anything runs."""
        self._worker = worker
        self._vitals = vitals
        self._metrics = metrics
        self._hook = hook
        self._emit = emit
        self._invoker = invoker
        self._socket = ControlSocket(
            state,
            worker.token,
            clock,
            questions={"health": self._health},
            work={"reconcile": self._reconcile},
            demands={"invoke": self._invoke},
            limit=max(MAX_REQUEST_BYTES, invoker.largest_request),
        )
        self._http = None if http is None else HttpServer(http, self._routes())
        if self._http is not None:
            vitals.http = self._http.address
        if metrics is not None:
            metrics.watch(vitals)

    def start(self) -> None:
        """Answer from now on. Raises FileFailure when the socket cannot be made."""
        self._socket.start()
        if self._http is not None:
            self._http.start()

    def running(self) -> None:
        """The worker's loops are up."""
        self._vitals.enter(State.RUNNING)

    def draining(self) -> None:
        """The worker stops: questions are still answered, demands refused."""
        self._vitals.enter(State.DRAINING)
        self._socket.close()

    def stop(self) -> None:
        """End, and leave no socket behind."""
        self._socket.stop()
        if self._http is not None:
            self._http.stop()
        self._vitals.close()

    # The socket

    def _health(self, _request: Document) -> Document:
        return self._vitals.report().to_json()

    def _invoke(self, request: Document) -> Course:
        try:
            return self._invoker.submit(request)
        except RequestRejected as refusal:
            # Before the first pass is done there are no apps, which must not be taken for an answer.
            if refusal.reason == "no-app" and self._vitals.state is State.STARTING:
                raise RequestRejected("starting") from None
            raise

    def _reconcile(self, request: Document, _cancel: threading.Event) -> Document:
        """Look at the source as soon as possible; consent to held removals first where it is given."""
        asked = request.get("accept_removals")
        accepted = None if asked is None else self._consent(asked)
        replicated = None if accepted is None else self._worker.confirm_replicas()
        self._worker.reconcile()
        reconciler = self._worker.reconciler
        self._emit(
            ControlUsed(
                action="reconcile",
                target="the apps",
                by=asker(request),
                reason=f"removals of {accepted} accepted" if accepted else "",
            )
        )
        return {
            "worker": self._worker.id,
            "revision": reconciler.revision,
            "accepted": accepted,
            "replicated": replicated,
            "held": "" if accepted else self._worker.held_removal,
            "broken": list(reconciler.broken_names),
            "source_lost": reconciler.is_source_lost and not self._worker.source.awaits,
            "awaits": self._worker.source.awaits,
            "busy": self._worker.source.busy,
        }

    def _consent(self, asked: object) -> str:
        if not isinstance(asked, str) or not re.fullmatch(r"[0-9a-f]+", asked, re.ASCII):
            raise UsageError("a revision is written in the digits 0 to 9 and a to f", help=self._held_text())
        known = [self._worker.held_removal, self._worker.reconciler.revision]
        is_long = len(asked) >= _SHORTEST_REVISION
        revision = next(
            (item for item in known if item and (item == asked or (is_long and item.startswith(asked)))), ""
        )
        if not revision:
            raise UsageError(f"this worker has not seen revision {asked[:64]}", help=self._held_text())
        self._worker.fleet.consent(revision)
        return revision

    def _held_text(self) -> str:
        held = self._worker.held_removal
        return f"relayctl reconcile --accept-removals {held}" if held else "no removals are held here"

    # HTTP

    def _routes(self) -> Mapping[tuple[str, str], Route]:
        routes: dict[tuple[str, str], Route] = {("GET", "/livez"): self._livez, ("GET", "/readyz"): self._readyz}
        if self._metrics is not None:
            routes["GET", "/metrics"] = self._page
        if self._hook is not None:
            routes["POST", HOOK_PATH] = self._hook.answer
        return routes

    def _livez(self, _request: Request) -> Response:
        report = self._vitals.report()
        return _verdict(report, is_ok=report.is_live)

    def _readyz(self, _request: Request) -> Response:
        report = self._vitals.report()
        return _verdict(report, is_ok=report.is_ready)

    def _page(self, _request: Request) -> Response:
        from relayctl.worker.metrics import CONTENT_TYPE

        assert self._metrics is not None
        return Response(body=self._metrics.page(), content_type=CONTENT_TYPE)


def _verdict(report: HealthReport, *, is_ok: bool) -> Response:
    document: dict[str, Any] = {"v": 1, "ok": is_ok, **report.to_json()}
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    return Response(status=200 if is_ok else 503, body=body, content_type="application/json")
