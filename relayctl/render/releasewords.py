"""Releases in a few words, for plans and for the fleet's status."""

from __future__ import annotations

from collections.abc import Sequence

from relayctl.core.release import Release
from relayctl.render.instants import utc_text


def brief(release: Release) -> str:
    """Its number, when it was made, to the minute, and by whom."""
    at = release.made_at.replace(second=0, microsecond=0)
    return f"release {release.serial} of {utc_text(at)} by {release.draft.by}"


def recoded_line(recoded: Sequence[str]) -> str:
    """Which apps change in their files alone; empty where none does."""
    if not recoded:
        return ""
    return f"New files, and the same template in effect: {', '.join(recoded)}."
