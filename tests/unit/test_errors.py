"""What is said of a failure of the system: in a sentence's case, and never nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from relayctl.errors import os_reason


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "secret-name"), "no space left on device"),
        (OSError("Something of its own"), "something of its own"),
        (OSError(), "unknown error"),
        (RuntimeError("Could not determine home directory."), "could not determine home directory."),
    ],
)
def test_the_reason_alone(error: OSError | RuntimeError, said: str) -> None:
    assert os_reason(error) == said


def test_a_loop_of_links_as_pathlib_tells_it(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises((RuntimeError, OSError)) as caught:
        (tmp_path / "loop").resolve(strict=True)
    assert "links" in os_reason(caught.value)
