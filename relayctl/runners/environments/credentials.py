"""Hides what an index is opened with: it is in URLs and variables of the builder, and installers repeat some of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote

from relayctl.runners.output import Masker, harmless

# To the last @: installers take a password with one in it too.
_USER = re.compile(r"://([^/\s'\"]+)@")
# A name ends where another may begin, and is looked into once, so the time is linear: packages print what they like.
_QUERY = re.compile(
    r"([?&](?=[^=?&\s]*(?:password|token|secret|key|auth))[^=?&\s]*=)[^&\s'\"]+",
    re.IGNORECASE,
)
_TELLING = re.compile(r"TOKEN|PASSW|SECRET|AUTH|CREDENTIAL|APIKEY|API_KEY", re.IGNORECASE)
_ENTRY = re.compile(r"(?:_authToken|_auth|_password|password|token)\s*=\s*[\"']?([^\s\"']+)", re.IGNORECASE)


class Blackout:
    """Makes a builder's output fit to be shown and stored: without credentials, without control characters."""

    def __init__(self, environ: Mapping[str, str], texts: Iterable[bytes] = ()) -> None:
        """`environ` is the builder's, `texts` are files that may name indexes."""
        self._masker = Masker(_values(environ, texts))

    def line(self, raw: bytes) -> str:
        """One line without its end."""
        text = harmless(self._masker.masked(raw).rstrip())
        return _QUERY.sub(r"\1***", _USER.sub("://***@", text))


def _values(environ: Mapping[str, str], texts: Iterable[bytes]) -> Iterator[str]:
    for name, value in environ.items():
        if _TELLING.search(name):
            yield value
        yield from _in_urls(value)
    for raw in texts:
        text = raw.decode("utf-8", "replace")
        yield from _in_urls(text)
        yield from (found[1] for found in _ENTRY.finditer(text) if not found[1].startswith("${"))


def _in_urls(text: str) -> Iterator[str]:
    for found in _USER.finditer(text):
        user, colon, password = found[1].partition(":")
        secret = password if colon else user
        if not secret.startswith("${"):
            yield from (secret, unquote(secret))
