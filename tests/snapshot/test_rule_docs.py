"""The pages in `docs/rules` are what `relayctl rule` prints, and there is one for each rule and no other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.golden import GOLDEN, GoldenText
from syrupy.assertion import SnapshotAssertion

from relayctl.cli.rule import cards
from relayctl.render import rules as render

if TYPE_CHECKING:
    from syrupy.location import PyTestLocation

_DOCS = GOLDEN.parent / "docs" / "rules"
_CARDS = cards()


class _Page(GoldenText):
    """`test_page[RLY207]` lives in `docs/rules/RLY207.md`, and the table in its README."""

    file_extension = "md"

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        return str(_DOCS)

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: int | str = 0) -> str:
        return super().get_snapshot_name(test_location=test_location, index=index).removeprefix("page-")


@pytest.mark.parametrize("card", _CARDS, ids=lambda card: card.code)
def test_page(card: render.Card, snapshot: SnapshotAssertion) -> None:
    assert render.markdown([card]) == snapshot.use_extension(_Page)


def test_README(snapshot: SnapshotAssertion) -> None:
    assert render.index(_CARDS) == snapshot.use_extension(_Page)


def test_there_is_no_other_page() -> None:
    assert {Path(page).stem for page in _DOCS.glob("*")} == {"README", *(card.code for card in _CARDS)}


@pytest.mark.parametrize("card", _CARDS, ids=lambda card: card.code)
def test_a_page_fits_a_terminal_and_says_all(card: render.Card) -> None:
    page = render.page(card, 80)
    assert max(len(line) for line in page.splitlines()) <= 80 + len("    # relay: ignore[RLY207]")
    assert all(f"{part}" in page for part in ("wrong:", "right:", "severity", "fix", "keep"))
    assert card.why.endswith(".")
