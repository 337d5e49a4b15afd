"""`POST /hooks/git`: a repository's host says that something was pushed. A signed demand; its body is not read.

Whoever knows the secret may demand a fetch; what is fetched is decided by the worker's own settings.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.core.facts import Emit, HookRefused
from relayctl.errors import FileFailure
from relayctl.host.http import Request, Response
from relayctl.sources.gitplace import read_secret_file

if TYPE_CHECKING:
    from collections.abc import Mapping

PATH = "/hooks/git"
_DIGESTS = ("x-hub-signature-256", "x-gitea-signature", "x-forgejo-signature")


class GitHook:
    """One route. It may be called from several threads."""

    def __init__(self, secret_file: Path, demand: Callable[[], None], emit: Emit) -> None:
        """The secret is read anew each time, so that a rotation needs no restart."""
        self._secret_file = secret_file
        self._demand = demand
        self._emit = emit
        self._is_told = False

    def answer(self, request: Request) -> Response:
        """202 for a right signature, whatever comes of the fetch; else 401, or 503 where the secret cannot be read."""
        try:
            secret = read_secret_file(self._secret_file, "RELAYCTL_WEBHOOK_SECRET_FILE")
        except FileFailure as failure:
            self._tell(failure.message)
            return Response(status=503, body=b"the secret of this hook cannot be read here\n")
        reason = why_refused(request.headers, request.body, secret)
        if reason:
            self._tell(reason)
            return Response(status=401, body=b"not signed with the secret of this hook\n")
        self._is_told = False
        self._demand()
        return Response(status=202, body=b"a fetch is demanded\n")

    def _tell(self, reason: str) -> None:
        # Once: anybody can send these, as many as they like.
        if not self._is_told:
            self._is_told = True
            self._emit(HookRefused(reason=reason))


def why_refused(headers: Mapping[str, str], body: bytes, secret: str) -> str:
    """Why a demand is not signed with this secret, or empty where it is. It takes the same time however wrong it is."""
    expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest().encode()
    digests = [headers[name].removeprefix("sha256=") for name in _DIGESTS if name in headers]
    token = headers.get("x-gitlab-token")
    if not digests and token is None:
        return f"it has neither {_DIGESTS[0]} nor x-gitlab-token"
    if any(hmac.compare_digest(digest.encode(errors="replace"), expected) for digest in digests):
        return ""
    if token is not None and hmac.compare_digest(token.encode(errors="replace"), secret.encode()):
        return ""
    return "its signature or token is not made with the secret of this hook"
