"""A run that an operator asks for: out of band, with an id of its own, never an expected firing."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime

from relayctl.core.occurrence import ENVELOPE_VERSION, MANUAL_SOURCE, instant_text

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


def is_manual_key(text: str) -> bool:
    """Whether this may be the key of a manual run: letters, digits, '.', '_' and '-', at most 64 of them."""
    return _KEY.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualRun:
    """One manual run. `key` keeps the same demand from running twice; `asked_at` is an instant at whole seconds."""

    app: str
    schedule: str
    key: str
    asked_at: datetime
    by: str

    @property
    def id(self) -> str:
        """`manual:<app>:<schedule>:<key>`."""
        return f"manual:{self.app}:{self.schedule}:{self.key}"

    def to_envelope(self) -> str:
        """The JSON text of the stream entry's `event` field."""
        return json.dumps(
            {
                "v": ENVELOPE_VERSION,
                "source": MANUAL_SOURCE,
                "app": self.app,
                "schedule": self.schedule,
                "scheduled_at": instant_text(self.asked_at),
                "occurrence_id": self.id,
                "by": self.by,
            },
            separators=(",", ":"),
        )
