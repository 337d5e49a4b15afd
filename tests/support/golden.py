"""Reviewed output under `golden/`: one plain text file for each case, in a folder named after the test module."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion
    from syrupy.location import PyTestLocation

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


class GoldenText(SingleFileSnapshotExtension):
    """`tests/snapshot/test_plan.py::test_text[small]` lives in `golden/plan/text-small.txt`."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        return str(GOLDEN / Path(test_location.filepath).stem.removeprefix("test_"))

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: int | str = 0) -> str:
        name = test_location.methodname.removeprefix("test_")
        _, bracket, case = test_location.nodename.partition("[") if test_location.nodename else ("", "", "")
        parts = [name, case.removesuffix("]") if bracket else "", "" if index == 0 else str(index)]
        return cls._sanitize_filename("-".join(part for part in parts if part))

    @classmethod
    def matches_test_location(cls, *, test_location: PyTestLocation, snapshot_location: str) -> bool:
        path = Path(snapshot_location)
        name = cls.get_snapshot_name(test_location=test_location)
        in_folder = str(path.parent) == cls.dirname(test_location=test_location)
        return in_folder and (path.stem == name or path.stem.startswith(f"{name}-"))


def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """The snapshot fixture, pointed at `golden/`."""
    return snapshot.use_extension(GoldenText)
