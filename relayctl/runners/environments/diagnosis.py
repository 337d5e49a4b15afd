"""From what an installer printed to one line that says why it failed. Words only; nothing is looked up."""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST_LINES = 12
_LONGEST = 300
_CAUSES = (
    (re.compile(r"no space left on device|ENOSPC|disk quota exceeded", re.IGNORECASE), "the disk is full"),
    (
        re.compile(r"\b(?:E401|E403)\b|(?:HTTP|status)[^\n]{0,40}\b(?:401|403)\b|unauthorized", re.IGNORECASE),
        "the package index refuses the builder's credentials",
    ),
    (
        re.compile(
            r"failed to establish a new connection|name resolution|name or service not known|nodename nor servname|"
            r"getaddrinfo|EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|network is unreachable|"
            r"connection (?:refused|reset)|error sending request|dns error|connect(?:ion)? timed? ?out|read timed out",
            re.IGNORECASE,
        ),
        "the package index cannot be reached",
    ),
    (
        re.compile(r"ensurepip is not available|No module named ensurepip"),
        "this Python cannot make environments; install its venv package",
    ),
    (re.compile(r"No module named venv"), "this Python cannot make environments; install its venv package"),
)
_ERROR = re.compile(r"(?:error|fatal|npm (?:error|err!))\b:?\s*(.*)", re.IGNORECASE)
_CAUSE = re.compile(r"(?:cause|caused by): *(\S.*)", re.IGNORECASE)
_NOISE = re.compile(r"\[notice\]|A complete log of this run|^npm (?:error|err!)\s*(?:code \w+)?$", re.IGNORECASE)


def reason_of(lines: Sequence[str], end: str) -> str:
    """The cause where it is a known one, and what the installer said about it; `end` is how it ended."""
    whole = "\n".join(lines)
    said = _said(lines)
    cause = next((words for pattern, words in _CAUSES if pattern.search(whole)), "")
    if cause:
        return f"{cause}: {said}"[:_LONGEST] if said else cause
    return (said or end)[:_LONGEST]


def last_of(lines: Sequence[str]) -> tuple[str, ...]:
    """The last lines that say something, for people."""
    return tuple(line[:_LONGEST] for line in lines if line.strip() and not _NOISE.search(line))[-MOST_LINES:]


def _said(lines: Sequence[str]) -> str:
    telling = [line.strip() for line in lines if line.strip() and not _NOISE.search(line)]
    # uv draws a tree, and the conclusion hangs at its end, over several lines.
    at = next((n for n in range(len(telling) - 1, -1, -1) if telling[n].startswith("╰─▶")), None)
    if at is not None:
        return " ".join(" ".join(telling[at:]).removeprefix("╰─▶").split())
    errors = [found for line in telling if (found := _ERROR.match(line)) is not None and found[1].strip()]
    causes = [found[1] for line in telling if (found := _CAUSE.match(line)) is not None]
    if errors:
        return ": ".join([errors[-1][1].strip(), *causes[-1:]])
    return telling[-1] if telling else ""
