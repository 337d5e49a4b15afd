"""Refusals that help: what was probably meant, and where the mistake is."""

from __future__ import annotations

import pytest

from relayctl.core import cron, cronwall, zones
from relayctl.core.cron import Cron, CronError, Every
from relayctl.core.crongrammar import read_field


def refused(expression: str) -> CronError:
    with pytest.raises(CronError) as caught:
        Cron.parse(expression)
    return caught.value


@pytest.mark.parametrize(
    ("expression", "code", "meant"),
    [
        ("30 0, 6, 12, 18 * * *", "RLY202", {"cron": "30 0,6,12,18 * * *"}),
        ("0 9 * * 1 - 5", "RLY202", {"cron": "0 9 * * 1-5"}),
        ("* / 5 * * * *", "RLY202", {"cron": "*/5 * * * *"}),
        ("0 0 3 * * *", "RLY202", {"cron": "0 3 * * *"}),
        ("0 30 2 * * sun *", "RLY202", {"cron": "30 2 * * sun"}),
        ("0 30 2 * 15 * *", "RLY202", {"cron": "30 2 15 * *"}),
        ("0 0 12 ? * MON-FRI", "RLY202", {"cron": "0 12 * * MON-FRI"}),
        ("0 0 12 ? * 2-6", "RLY202", {"cron": "0 12 * * MON-FRI"}),
        ("0 0 12 * * ? 2026", "RLY202", {"cron": "0 12 * * *"}),
        ("0 12 ? * 1 *", "RLY202", {"cron": "0 12 * * SUN"}),
        ("*/10 * * * * *", "RLY202", {"every": "10s"}),
        ("* * * * * *", "RLY202", {"every": "1s"}),
        ("0 3 * * * root /usr/bin/true --all", "RLY202", {"cron": "0 3 * * *"}),
        ("*/5 * * * * curl -s https://example.com > /dev/null", "RLY202", {"cron": "*/5 * * * *"}),
        ("0 3 * * 1-5 # nightly", "RLY202", {"cron": "0 3 * * 1-5"}),
        ("03:30", "RLY202", {"cron": "30 3 * * *"}),
        ("0 3 * *", "RLY202", None),
        ("daily", "RLY202", {"cron": "@daily"}),
        ("Hourly", "RLY202", {"cron": "@hourly"}),
        ("dayly", "RLY202", None),
        ("every 5 minutes", "RLY202", {"every": "5m"}),
        ("every", "RLY202", None),
        ("every night", "RLY202", None),
        ("Europe/Rome 0 3 * * *", "RLY202", {"cron": "0 3 * * *", "timezone": "Europe/Rome"}),
        ("0 3 * * * (Europe/Rome)", "RLY202", {"cron": "0 3 * * *", "timezone": "Europe/Rome"}),
        ("@daily UTC", "RLY203", None),
        ("0 0 3 * * * UTC", "RLY202", {"cron": "0 3 * * *", "timezone": "UTC"}),
        ("@weekly\n", "RLY201", {"cron": "@weekly"}),
        ("\u00a0@daily", "RLY201", {"cron": "@daily"}),
        ("@daily\u3000", "RLY201", {"cron": "@daily"}),
        ("", "RLY202", None),
        (" \t ", "RLY202", None),
        ('"0 * * * *"', "RLY201", {"cron": "0 * * * *"}),
        ("'0 0 3 * * *'", "RLY201", {"cron": "0 3 * * *"}),
        ("\u201c@daily\u201d", "RLY201", {"cron": "@daily"}),
        ("0 3 * * *\r\n", "RLY201", {"cron": "0 3 * * *"}),
        ("0\u00a03 * * *", "RLY201", {"cron": "0 3 * * *"}),
        ("0 3 * * \u017fun", "RLY201", {"cron": "0 3 * * sun"}),
        ("*5 * * * *", "RLY201", {"cron": "*/5 * * * *"}),
        ("/5 * * * *", "RLY201", {"cron": "*/5 * * * *"}),
        ("0 3 * * monday", "RLY201", {"cron": "0 3 * * MON"}),
        ("0 3 * * Mondays-friday", "RLY201", {"cron": "0 3 * * MON-FRI"}),
        ("0 3 1 january *", "RLY201", {"cron": "0 3 1 JAN *"}),
        ("30 2 * 15 *", "RLY201", {"cron": "30 2 15 * *"}),
        ("0 0 * mon *", "RLY201", {"cron": "0 0 * * mon"}),
        ("1,,2, * * * *", "RLY201", {"cron": "1,2 * * * *"}),
        ("*/0 * * * *", "RLY201", None),
        ("60 * * * *", "RLY201", None),
        ("1-2-3 * * * *", "RLY201", None),
        ("0 0 31-40 * *", "RLY201", None),
        ("x x * * *", "RLY201", None),
        ("*/30 17-9 * * *", "RLY213", {"cron": "*/30 17-23,0-9 * * *"}),
        ("*/120 * * * *", "RLY209", {"every": "120m"}),
        ("*/90 9-17 * * *", "RLY209", None),
        ("H/15 * * * *", "RLY214", None),
        ("0 0 L-3 * *", "RLY214", None),
        ("0 0 LW * *", "RLY214", None),
        ("0 0 * * MONL", "RLY214", None),
        ("0 0 * * mon#1", "RLY214", None),
        ("0~59 * * * *", "RLY214", None),
        ("0 0 ? * ?", "RLY214", {"cron": "0 0 * * *"}),
        ("@every 6h", "RLY203", {"every": "6h"}),
        ("@every 1h30m", "RLY203", {"every": "1h30m"}),
        ("@every 1.5h", "RLY203", {"every": "90m"}),
        ("@EVERY 30s", "RLY203", {"every": "30s"}),
        ("@every 500ms", "RLY203", None),
        ("@every -5m", "RLY203", None),
        ("@daily 03:00", "RLY203", {"cron": "0 3 * * *"}),
        ("@dayly", "RLY203", None),
        ("TZ=Europe/Rome 0 0 3 * * *", "RLY204", {"cron": "0 3 * * *", "timezone": "Europe/Rome"}),
        ("CRON_TZ=europe/rome @daily", "RLY204", {"cron": "@daily", "timezone": "Europe/Rome"}),
        ("CRON_TZ=Local 0 3 * * *", "RLY204", None),
        ("CRON_TZ=Europe/Rome @every 5m", "RLY204", None),
    ],
)
def test_the_way_out(expression: str, code: str, meant: dict | None) -> None:
    error = refused(expression)
    assert error.code == code
    assert error.suggestion == meant
    assert error.help
    for written in (meant or {}).values():
        assert written in error.help
    if meant and "every" in meant:
        Every.parse(meant["every"])


@pytest.mark.parametrize(
    ("expression", "at_fault"),
    [
        ("0 24 * * *", "24"),
        ("  0   1,24,3 * * *", "24"),
        ("0 0 * * MON,FRI-MON", "FRI-MON"),
        ("0 0 * *\t5#3", "5#3"),
        ("CRON_TZ=UTC 0 3 * * *", "CRON_TZ=UTC "),
        (" @reboot ", "@reboot"),
        (" 0 0 3 * * * ", "0 0 3 * * *"),
        ("0 3 * * *\n", "\n"),
    ],
)
def test_the_span_covers_what_is_wrong(expression: str, at_fault: str) -> None:
    assert expression[slice(*refused(expression).span)] == at_fault


def test_messages_name_field_value_and_range() -> None:
    assert str(refused("0 24 * * *")) == 'hour field, "24": 24 is outside 0-23'
    assert "day-of-week" in str(refused("0 0 * * 8"))
    assert "0 and 7 are both Sunday" in str(refused("0 0 * * 8").help)
    assert "fifth field" in str(refused("0 0 * FRI *").help)
    assert "@hourly @daily @midnight @weekly @monthly @yearly @annually" in str(refused("@dayly").help)
    assert "@daily" in str(refused("@dayly").help)
    assert "instant" in str(refused("@every 5m"))


def test_hostile_text_is_refused_briefly() -> None:
    for text in ("9" * 512 + " * * * *", "*," * 255 + " * * * *", "\x00" * 100, "@" + "x" * 511, "a" * 100_000):
        error = refused(text)
        assert len(error.message) + len(str(error.help)) < 700
        assert text not in error.message


def test_parsed_schedules_are_shared_and_the_caches_are_bounded() -> None:
    assert Cron.parse("7 7 * * *", "Europe/Rome") is Cron.parse("7 7 * * *", "Europe/Rome")
    caches = (cron._parse, cronwall.wall_pattern, zones.zone_named, zones._block, read_field)
    assert all(cache.cache_info().maxsize for cache in caches)
    assert len({Cron.parse("7 7 * * *"), Cron.parse("07 07 * * *"), Cron.parse("7 7 * * *", "Europe/Rome")}) == 2
