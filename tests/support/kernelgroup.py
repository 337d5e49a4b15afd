"""A control group of the real kernel for one test, where this machine lets one be made."""

from __future__ import annotations

import secrets
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from support.broker import await_fact

from relayctl.runners.cgroups import PREFIX, Delegation, Group, own_group

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from relayctl.core.model import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class KillingOnly(Delegation):
    """Groups for every tree, that limit nothing: what remains are entering, killing and removing."""

    def wants_group(self, resources: Resources) -> bool:
        return True


@contextmanager
def group_of_test() -> Iterator[Path]:
    """A new group below that of this process; skips where none may be made. It is empty when the test ends."""
    own = own_group()
    if isinstance(own, str):
        pytest.skip(own)
    path = own / f"{PREFIX}test-{secrets.token_hex(4)}"
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made in that of this process: {error.strerror}")
    try:
        yield path
    finally:
        await_fact(lambda: _is_gone(path), f"{path} cannot be removed")


def _is_gone(path: Path) -> bool:
    for group in path.glob("*/"):
        Group(group).kill()
        with suppress(OSError):
            group.rmdir()
    return Group(path).remove()
