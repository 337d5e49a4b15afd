"""A language server whose editor has the schemas of this checkout mapped to their files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.languageserver import LanguageServer, installed
from support.schema import SCHEMAS

from relayctl.cli.scaffold import EDITOR

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def server_program(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The server, installed once for all test processes of this run."""
    base = tmp_path_factory.getbasetemp()
    return installed((base if worker_id == "master" else base.parent) / "language-server")


@pytest.fixture(scope="module")
def editor(server_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanguageServer]:
    """A server with the mapping that `init --editor` writes."""
    (pattern,) = json.loads(EDITOR[".vscode/settings.json"])["yaml.schemas"].values()
    mapping = {(SCHEMAS / "template.schema.json").as_uri(): [pattern]}
    server = LanguageServer(server_program, tmp_path_factory.mktemp("workspace"), mapping)
    yield server
    server.close()
