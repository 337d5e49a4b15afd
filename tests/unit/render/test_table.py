"""Tables lose nothing, however narrow they are."""

from __future__ import annotations

import pytest

from relayctl.render.table import columns

WORDS = ("web-1", "web-2", "7c1e9d42ab12", "directory", "apps,", "since", "yesterday")
ROWS = [
    ("WORKER", "APPS", "REVISION", "SOURCE"),
    ("web-1", "3", "7c1e9d42ab12", "directory apps, since the day before yesterday"),
    ("web-2", "-", "-", ""),
]


@pytest.mark.parametrize("width", range(24, 100))
def test_every_word_is_there_and_no_line_is_too_long(width: int) -> None:
    text = columns(ROWS, width=width)
    assert all(len(line) <= width for line in text.splitlines())
    assert "…" not in text
    assert all(word in text for word in WORDS)


def test_with_room_the_last_column_is_wrapped_in_its_place() -> None:
    assert columns(ROWS, width=60).splitlines()[1:] == [
        "web-1    3      7c1e9d42ab12   directory apps, since the day",
        "                               before yesterday",
        "web-2    -      -",
    ]


def test_without_it_cells_stand_below_with_their_heads() -> None:
    assert columns(ROWS, width=30) == (
        "WORKER   APPS   REVISION\nweb-1    3      7c1e9d42ab12\n  directory apps, since the\n  day before yesterday\n"
        "web-2    -      -\n"
    )
    assert columns(ROWS, width=20).splitlines()[:4] == [
        "WORKER   APPS", "web-1    3", "  revision", "  7c1e9d42ab12,",
    ]  # fmt: skip
