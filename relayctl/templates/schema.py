"""The schema files: found in the wheel first, else in the checkout. It reads them and compiles nothing."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from relayctl.errors import FileFailure

TEMPLATE = "template.schema.json"
CONFIG = "config.schema.json"
_CHECKOUT = Path(__file__).resolve().parents[2] / "schemas"


def schema_text(name: str) -> str:
    """The text of a schema file such as `template.schema.json`."""
    packaged = resources.files("relayctl").joinpath("_schemas", name)
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    try:
        return (_CHECKOUT / name).read_text(encoding="utf-8")
    except OSError:
        raise FileFailure(f"schema {name} is not installed", help="reinstall relayctl") from None


@lru_cache(maxsize=8)
def schema(name: str) -> dict[str, Any]:
    """A schema file as data. Shared: nobody may change it."""
    document: dict[str, Any] = json.loads(schema_text(name))
    return document


def template_schema() -> dict[str, Any]:
    """The schema of an app template."""
    return schema(TEMPLATE)
