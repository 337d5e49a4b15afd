"""An app whose dependencies are not installed yet, as a worker says it of itself. A value and its words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class UnbuiltApp:
    """An app that waits for the environment of its newest version, made from `file`.

    `reason` says why the last try failed, empty where none has; `lines` are the last ones that the installer printed.
    `serves` is the revision that runs meanwhile, empty where none does; `since` is RFC 3339.
    """

    app: str
    file: str
    reason: str = ""
    lines: tuple[str, ...] = ()
    since: str = ""
    serves: str = ""

    @property
    def is_failing(self) -> bool:
        """Whether a try has failed, and somebody should look."""
        return bool(self.reason)

    @property
    def state(self) -> str:
        """What is wrong, and what runs meanwhile; neither the app nor the reason is in it."""
        return self._state("")

    @property
    def words(self) -> str:
        """What is wrong with which app and why, and what runs meanwhile."""
        return f"app {self.app}: {self._state(f': {self.reason}')}"

    def _state(self, because: str) -> str:
        state = f"building {self.file} failed{because}" if self.is_failing else f"{self.file} is being built"
        return f"{state}; {f'runs its build of {self.serves}' if self.serves else 'does not run yet'}"

    def to_json(self) -> dict[str, Any]:
        """Its fields, for a worker's record."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> UnbuiltApp:
        """Read them; what a newer worker adds is left out."""
        known = {name: document[name] for name in cls.__slots__ if name in document}
        return cls(**known | {"lines": tuple(known.get("lines", ()))})
