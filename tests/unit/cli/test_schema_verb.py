"""`relayctl schema`, and the schema of the settings file against the table of settings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from relayctl import settings
from relayctl.cli import app as cli
from relayctl.errors import UsageError
from relayctl.settings import SETTINGS
from relayctl.templates.schema import CONFIG, TEMPLATE, schema, schema_text

KEYS = schema(CONFIG)["properties"]


def _accepts(document: Any) -> bool:
    return bool(jsonschema.Draft7Validator(schema(CONFIG)).is_valid(document))


def _load(tmp_path: Path, key: str, value: object) -> Any:
    file = tmp_path / "relayctl.toml"
    file.write_text(f"{key} = {json.dumps(value)}\n")
    return getattr(settings.load({}, config=file, environ={}), key)


def test_it_has_the_settings_of_the_table_and_their_defaults() -> None:
    assert list(KEYS) == list(SETTINGS)
    for key, row in SETTINGS.items():
        default = KEYS[key].get("default")
        assert (None if default is None else str(default).lower()) == (row.default and row.default.lower()), key
        assert KEYS[key]["description"].lower().startswith(row.help.lower()), key
        assert row.default is None or f"Default: {row.default}." in KEYS[key]["description"], key


@pytest.mark.parametrize("key", KEYS)
def test_every_setting_explains_itself_to_an_editor(key: str, tmp_path: Path) -> None:
    assert {"title", "description", "examples", "type"} <= set(KEYS[key])
    assert ("pattern" in KEYS[key]) <= ("errorMessage" in KEYS[key])
    for example in [*KEYS[key]["examples"], *KEYS[key].get("enum", ())]:
        assert _accepts({key: example})
        assert _load(tmp_path, key, example) is not None or example == "off"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("namespce", "x"),
        ("namespace", "A b"),
        ("drain", "20 sec"),
        ("drain", 20),
        ("drain", True),
        ("color", "allways"),
        ("min_replica_acks", -1),
        ("min_replica_acks", "one"),
        ("max_event_bytes", 12),
        ("no_build", "maybe"),
        ("redis_url", "localhost:6379"),
        ("http", "host"),
        ("http", 70000),
        ("apps", ""),
    ],
)
def test_what_is_refused_when_it_is_read_is_underlined_before(key: str, value: object, tmp_path: Path) -> None:
    assert not _accepts({key: value})
    with pytest.raises(UsageError, match=re.escape(f"{tmp_path / 'relayctl.toml'}:1: ")):
        _load(tmp_path, key, value)


@pytest.mark.parametrize(("arguments", "name"), [((), TEMPLATE), (("template",), TEMPLATE), (("config",), CONFIG)])
def test_it_prints_the_schema_that_was_asked_for(
    arguments: tuple[str, ...], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["schema", *arguments]) == 0
    assert capsys.readouterr().out == schema_text(name)


def test_a_copy_is_compared_with_its_own_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "config.schema.json"
    assert cli.run(["schema", "config", "--output-file", str(copy)]) == 0
    assert cli.run(["schema", "config", "--check", str(copy)]) == 0
    assert cli.run(["schema", "--check", str(copy)]) == 1
    assert "differs from the bundled schema" in capsys.readouterr().err
    copy.write_text(copy.read_text().replace("Apps", "Programs"))
    assert cli.run(["schema", "config", "--check", str(copy)]) == 1
    assert f"relayctl schema config --output-file {copy}" in capsys.readouterr().err
