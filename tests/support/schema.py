"""Documents against the schemas in `schemas/`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"


def conforms(document: Any, name: str, definition: str = "") -> None:
    """Raise ValidationError unless the document is what `schemas/<name>.schema.json` (or a part of it) describes."""
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    if definition:
        schema = {"definitions": schema["definitions"], "$ref": f"#/definitions/{definition}"}
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.Draft7Validator(schema).validate(document)
