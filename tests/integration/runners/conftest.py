"""Pools for a test, closed afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from runner_stage import Stage, zoo_build

from relayctl.runners.build import Build


@pytest.fixture
def make_stage() -> Iterator[Callable[..., Stage]]:
    stages: list[Stage] = []

    def make(*builds: Build, **options: object) -> Stage:
        stage = Stage(**options)
        stages.append(stage)
        for build in builds:
            stage.pool.deploy(build)
        return stage

    yield make
    for stage in stages:
        stage.close()


@pytest.fixture
def stage(make_stage: Callable[..., Stage]) -> Stage:
    return make_stage(zoo_build())
