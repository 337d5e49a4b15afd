"""The negative cases: one folder for each rule, with an apps tree and what is expected of it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

INVALID = Path(__file__).resolve().parents[1] / "cases" / "invalid"
NOW = datetime(2026, 9, 29, 10, 15, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidCase:
    """A folder: `token` is the text the caret must stand under, where it may be written down."""

    name: str
    apps: Path
    code: str
    token: str | None


def invalid_cases() -> list[InvalidCase]:
    """Every folder of `tests/cases/invalid`."""
    return [_case(folder) for folder in sorted(INVALID.iterdir()) if folder.is_dir()]


def _case(folder: Path) -> InvalidCase:
    expected = tomllib.loads((folder / "expect.toml").read_text(encoding="utf-8"))
    return InvalidCase(name=folder.name, apps=folder / "apps", code=expected["code"], token=expected.get("token"))
