"""Finds the bundled JSON Schemas: inside the installed package, else in the checkout. Nothing is fetched."""

from __future__ import annotations

import json
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import relayctl
from relayctl.errors import FileFailure

TEMPLATE = "template.schema.json"


def schema_text(name: str) -> str:
    """The text of a bundled schema."""
    packaged: Traversable = resources.files(relayctl).joinpath("_schemas", name)
    checkout = Path(relayctl.__file__).parent.parent / "schemas" / name
    for place in (packaged, checkout):
        try:
            return place.read_text(encoding="utf-8")
        except OSError:
            continue
    raise FileFailure(f"the schema {name} is not part of this installation", help="install relayctl again")


def template_schema() -> dict[str, Any]:
    """The schema of `template.yaml`."""
    document: dict[str, Any] = json.loads(schema_text(TEMPLATE))
    return document
