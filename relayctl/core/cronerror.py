"""The error that a cron expression or a zone name can raise. It knows no grammar: who raises it writes the words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relayctl.errors import RelayError

if TYPE_CHECKING:
    from collections.abc import Mapping


class CronError(RelayError, ValueError):
    """The cron expression or its zone cannot be used."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        help: str | None = None,  # noqa: A002
        span: tuple[int, int] = (0, 0),
        suggestion: Mapping[str, str] | None = None,
    ) -> None:
        """Carry where and what to do.

        `code` is the lint code (`RLY201`), `span` the half-open range of characters at fault in the given text,
        `suggestion` the keys to write instead (`cron`, `timezone`, `every`) where a portable form exists.
        """
        super().__init__(message, help=help)
        self.code = code
        self.span = span
        self.suggestion = dict(suggestion) if suggestion is not None else None
