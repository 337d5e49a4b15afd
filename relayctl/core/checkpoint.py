"""What a worker remembers of one schedule, in case the broker forgets everything: the floor to go on from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The definition in force and the instant up to which all was published or passed over, both as last known.

    `floor`, `paused_at` and `paused_until` are epoch seconds, `from_ms` is when the definition came into force.
    `control` numbers the operator's act that the pause, or that there is none, goes back to.
    """

    app: str
    schedule: str
    gen: int
    hash: str
    spec: str
    from_ms: int
    floor: int
    paused_at: int | None = None
    paused_until: int | None = None
    paused_by: str = ""
    pause_reason: str = ""
    control: int = 0

    @property
    def name(self) -> tuple[str, str]:
        """App and schedule."""
        return self.app, self.schedule

    @property
    def is_sound(self) -> bool:
        """Whether it can be offered at all: a damaged one is no evidence."""
        return bool(self.app and self.schedule and self.hash) and self.gen >= 1 and self.from_ms >= 0
