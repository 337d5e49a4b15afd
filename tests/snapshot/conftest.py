"""The `golden` fixture of the snapshot tests: text against one reviewed file per case."""

from __future__ import annotations

import pytest
from support.golden import golden as compared
from syrupy.assertion import SnapshotAssertion


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """Compare text with the reviewed file of this case."""
    return compared(snapshot)


def pytest_itemcollected(item: pytest.Item) -> None:
    """The names of the files are shorter than syrupy expects, on purpose; it says so whenever it writes one."""
    item.add_marker(pytest.mark.filterwarnings(r"ignore:\s*Can not relate snapshot name:UserWarning"))
