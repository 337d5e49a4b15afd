"""Settings: precedence, where a value came from, and errors that name the place and repeat no secret."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest

from relayctl import settings
from relayctl.errors import UsageError
from relayctl.settings import Lenient, Origin, parse_resync


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "relayctl.toml"
    path.write_text('namespace = "from-file"\ndrain = "10s"\nmin_replica_acks = 2\n')
    return path


def test_a_flag_wins_over_a_variable_over_the_file_over_the_default(config: Path) -> None:
    environ = {"RELAYCTL_NAMESPACE": "from-variable", "RELAYCTL_DRAIN": "20s"}
    found = settings.load({"namespace": "from-flag"}, config=config, environ=environ)
    assert (found.namespace, found.drain, found.min_replica_acks) == ("from-flag", timedelta(seconds=20), 2)
    assert found.debounce == timedelta(milliseconds=50)
    keys = ("namespace", "drain", "min_replica_acks", "debounce")
    assert [found.origins[key] for key in keys] == [Origin.FLAG, Origin.VARIABLE, Origin.FILE, Origin.DEFAULT]


def test_the_file_of_the_working_directory_is_used_and_may_be_absent(
    config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(config.parent)
    assert settings.load({}, environ={}).namespace == "from-file"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert settings.load({}, environ={}).config is None


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        settings.load({}, config=tmp_path / "absent.toml", environ={})


def test_the_state_directory_stands_beside_the_apps(tmp_path: Path) -> None:
    found = settings.load({"apps": str(tmp_path / "tree" / "apps")}, environ={})
    assert found.state_dir == tmp_path / "tree" / ".relayctl"
    assert settings.load({"state_dir": "elsewhere"}, environ={}).state_dir == Path("elsewhere")


def test_an_empty_variable_is_not_set() -> None:
    assert settings.load({}, environ={"RELAYCTL_NAMESPACE": ""}).origins["namespace"] is Origin.DEFAULT


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('namespce = "x"', 'unknown key "namespce"'),
        ("drain = true", "drain: expected a string or a number, found true or false"),
        ("drain = [1]", "found a list"),
        ("drain = 2.5", "found a fraction"),
        ("drain = 2026-09-29", "found a date"),
        ("drain = 20 sec", "bad.toml:1:12: not valid TOML"),
        ('drain = "20', "bad.toml:1:12: not valid TOML"),
        ("drain = [", "not valid TOML"),
        ('\n\ndrain = "x"', "bad.toml:3: drain"),
        ('[serve]\ndrain = "20s"', 'bad.toml:1: unknown table "serve" settings stand at the top'),
        ('apps = """\ndrain = 5\n"""\n"drain" = true', "bad.toml:4: drain: expected a string or a number"),
        ('drain = "20 sec"', 'drain: expected a duration such as 30s or 1h30m, found "20 sec"'),
        ('color = "allways"', 'did you mean "always"'),
        ("min_replica_acks = -1", "a whole number from 0 to 16"),
        ('namespace = "A b"', "not a name"),
        ('http = "host:99999"', "expected an address"),
        ('max_timeout = "0s"', "above zero"),
    ],
)
def test_a_bad_file_names_itself_the_key_and_the_fault(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text + "\n")
    with pytest.raises(UsageError) as caught:
        settings.load({}, config=path, environ={})
    assert message in f"{caught.value.message} {caught.value.help}"
    assert str(path) in caught.value.message


def test_a_home_that_is_nobodys_is_refused() -> None:
    with pytest.raises(UsageError, match="--apps: there is no home directory"):
        settings.load({"apps": "~nobody-of-this-name/apps"}, environ={})


def test_an_unknown_key_gets_a_suggestion(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('namespce = "x"\n')
    with pytest.raises(UsageError) as caught:
        settings.load({}, config=path, environ={})
    assert caught.value.help == 'did you mean "namespace"?'


_PATHS = {"apps", "state_dir", "secrets_dir", "git_token_file", "webhook_secret_file"}


@pytest.mark.parametrize("key", [key for key in settings.SETTINGS if key not in _PATHS])
def test_a_bad_value_never_repeats_a_credential(key: str) -> None:
    secret = "http://user:hunter2@host/?password=hunter2"
    try:
        found = settings.load({key: secret}, environ={})
    except UsageError as error:
        assert "hunter2" not in f"{error.message} {error.help}"
    else:
        assert "hunter2" not in f"{found.warnings} {found.shown(key)}"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:p:w@host:1/0", "redis://user:***@host:1/0"),
        ("redis://:pw@host", "redis://:***@host"),
        ("redis://user:p/w@host:1/0", "redis://user:***@host:1/0"),
        ("redis://user:p@w/x@host:1/0", "redis://user:***@host:1/0"),
        (
            "redis+sentinel://u:pw@h:1/m?sentinel_password=pw&db=1",
            "redis+sentinel://u:***@h:1/m?sentinel_password=***&db=1",
        ),
        ("unix:///run/x.sock?password=pw&db=1", "unix:///run/x.sock?password=***&db=1"),
        ("redis://host/0", "redis://host/0"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    found = settings.load({}, environ={"RELAYCTL_REDIS_URL": url})
    assert found.redis_url == url
    assert found.shown("redis_url") == shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30m", timedelta(minutes=30)),
        ("1h30m", timedelta(minutes=90)),
        ("off", None),
        ("DISABLED", None),
        ("0", None),
        ("0s", None),
    ],
)
def test_an_interval_by_its_table(text: str, expected: timedelta | None) -> None:
    assert parse_resync(text) == expected


@pytest.mark.parametrize(
    ("text", "value"), [("-1h", 30), ("banana", 30), ("10ms", 1), ("400d", 86_400), ("redis://:hunter2@h", 30)]
)
def test_a_mistyped_interval_warns_and_goes_on(text: str, value: int) -> None:
    found = parse_resync(text)
    assert isinstance(found, Lenient)
    assert found.value == timedelta(seconds=value)
    assert "hunter2" not in found.warning
    loaded = settings.load({}, environ={"RELAYCTL_RESYNC_INTERVAL": text})
    assert loaded.warnings[0].startswith("RELAYCTL_RESYNC_INTERVAL: ")


@pytest.mark.parametrize(
    ("environ", "is_unicode"),
    [
        ({}, False),
        ({"LANG": "C"}, False),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False),
        ({"LANG": "it_IT.UTF-8"}, True),
        ({"LANG": "C.UTF-8", "LC_CTYPE": "C.UTF-8"}, True),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "C"}, False),
    ],
)
def test_symbols_follow_the_locale(environ: dict[str, str], is_unicode: bool) -> None:
    assert settings.terminal(environ).is_unicode is is_unicode


def test_colour_is_off_where_the_terminal_says_so() -> None:
    assert settings.terminal({"TERM": "xterm"}).allows_color
    assert not settings.terminal({"TERM": "dumb"}).allows_color
    assert not settings.terminal({"NO_COLOR": "1"}).allows_color


def test_every_row_is_a_field_and_every_default_parses() -> None:
    found = settings.load({}, environ={})
    for key, row in settings.SETTINGS.items():
        assert hasattr(found, key)
        assert row.flag and row.flag.startswith("--")
        assert row.help == row.help.strip() and row.help[0].islower()


@pytest.mark.parametrize(("text", "value"), [("1", True), ("true", True), ("Yes", True), ("0", False), ("off", False)])
def test_a_switch_is_written_as_people_write_it(text: str, value: bool, tmp_path: Path) -> None:
    assert settings.load({}, environ={"RELAYCTL_NO_BUILD": text}).no_build is value
    config = tmp_path / "relayctl.toml"
    config.write_text(f"no_build = {str(value).lower()}\n")
    assert settings.load({}, config=config, environ={}).no_build is value
    with pytest.raises(UsageError, match='RELAYCTL_NO_BUILD: expected true or false, found "maybe"'):
        settings.load({}, environ={"RELAYCTL_NO_BUILD": "maybe"})


def test_masking_takes_no_time_whatever_a_server_says() -> None:
    began = time.perf_counter()
    for word in ("?", "?token", "://a:", "&"):
        settings.mask_url("?" + word * (20_000 // len(word)))
    assert time.perf_counter() - began < 5
    assert settings.mask_url("https://u:pw@h/?a=1?token=x&b=2") == "https://u:***@h/?a=1?token=***&b=2"
