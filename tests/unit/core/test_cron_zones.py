"""Zone names: which are taken, and what is offered for the rest."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime

import pytest

from relayctl.core import zones
from relayctl.core.cron import Cron, CronError
from relayctl.core.zones import tzdata_version, zone_digest, zone_named, zone_names


@pytest.mark.parametrize(
    ("name", "code", "offered"),
    [
        ("Local", "RLY302", "Europe/Rome"),
        ("localtime", "RLY302", "UTC"),
        ("posixrules", "RLY302", "UTC"),
        ("Factory", "RLY302", "UTC"),
        ("right/Europe/Rome", "RLY301", '"Europe/Rome"'),
        ("posix/Europe/Rome", "RLY301", '"Europe/Rome"'),
        ("europe/rome", "RLY301", '"Europe/Rome"'),
        ("EUROPE/ROME", "RLY301", '"Europe/Rome"'),
        ("utc", "RLY301", '"UTC"'),
        ("UTC+3", "RLY301", '"Etc/GMT-3"'),
        ("UTC+0", "RLY301", 'write "UTC"'),
        ("-00:00", "RLY301", 'write "UTC"'),
        ("GMT+8", "RLY301", '"Etc/GMT-8"'),
        ("+05:30", "RLY301", "Asia/Kolkata"),
        ("", "RLY301", "UTC"),
        ("  ", "RLY301", "UTC"),
        ("../../etc/hostname", "RLY301", "Europe/Rome"),
        ("/etc/localtime", "RLY301", "Europe/Rome"),
        ("America/Los Angeles", "RLY301", '"America/Los_Angeles"'),
        (" Europe/Rome", "RLY301", '"Europe/Rome"'),
        ("Rome", "RLY301", '"Europe/Rome"'),
        ("Europe/Rom", "RLY301", '"Europe/Rome"'),
        ("Europe/Milan", "RLY301", "did you mean"),
        ("Europe", "RLY301", "Europe"),
        ("PST", "RLY301", '"America/Los_Angeles"'),
        ("Europe/Rome\n", "RLY301", '"Europe/Rome"'),
        ("Europe/Rome\0", "RLY301", "Europe/Rome"),
        ("x" * 5000, "RLY301", "IANA"),
    ],
)
def test_a_wrong_name_is_refused_with_the_nearest(name: str, code: str, offered: str) -> None:
    with pytest.raises(CronError) as caught:
        Cron.parse("0 3 * * *", name)
    assert caught.value.code == code
    assert offered in str(caught.value.help)
    assert len(caught.value.message) < 200


def test_a_name_that_differs_in_case_alone_can_be_put_right() -> None:
    with pytest.raises(CronError) as caught:
        zone_named("europe/rome")
    assert caught.value.suggestion == {"timezone": "Europe/Rome"}


@pytest.mark.parametrize("name", ["US/Eastern", "Europe/Kiev", "Canada/Eastern", "EST5EDT", "Etc/GMT-8", "UTC", "GB"])
def test_aliases_pass(name: str) -> None:
    assert zone_named(name).name == name


def test_every_listed_zone_loads_and_agrees_with_its_data() -> None:
    at = int(datetime(2026, 7, 1, tzinfo=UTC).timestamp())
    for name in zone_names():
        zone = zone_named(name)
        assert zone.stretch_at(at).offset == datetime.fromtimestamp(at, zone.info).utcoffset().total_seconds()
    assert zone_named("Etc/GMT-8").always is not None
    assert zone_named("Europe/Rome").always is None
    assert zone_named("Etc/GMT-8").stretch_at(0).offset == 8 * 3600


def test_the_hosts_zone_files_are_not_read(tmp_path, monkeypatch) -> None:
    (tmp_path / "Europe").mkdir()
    (tmp_path / "Europe" / "Oslo").write_bytes(b"not a zone file")
    monkeypatch.setattr(zoneinfo, "TZPATH", (str(tmp_path),))
    zones.zone_named.cache_clear()
    assert Cron.parse("0 9 1 7 *", "Europe/Oslo").next_after(datetime(2026, 6, 1, tzinfo=UTC)).hour == 7


def test_digest_and_version() -> None:
    assert len(zone_digest("Europe/Rome")) == 64
    assert zone_digest("Europe/Rome") == Cron.parse("@daily", "Europe/Rome").zone_digest != zone_digest("Europe/Paris")
    assert tzdata_version()[:2] == "20"
