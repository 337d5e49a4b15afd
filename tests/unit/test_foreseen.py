"""Rules that plan says of a fleet: zone data, pauses that were forgotten, and secrets without a value."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from support.templates import MODELINE, checked, schedule

from relayctl.api import Desired, compare
from relayctl.api.foreseen import long_pauses, undefined_secrets, zone_data
from relayctl.core.description import Description, describe_app
from relayctl.core.running import RunningSchedule
from relayctl.templates.rules.pages import pages
from relayctl.templates.rules.registry import BY_CODE

_NOW = datetime(2026, 9, 29, 10, 15, tzinfo=UTC)
_NAME = ("billing", "nightly")


def _described(*lines: str, top: str = "", name: str = "nightly") -> Description:
    app, problems = checked(MODELINE + top + schedule(*lines, name=name))
    assert app is not None, problems
    return describe_app(app, "")


def _paused(**fields: object) -> RunningSchedule:
    return RunningSchedule(hash="h", spec="s", **fields)  # type: ignore[arg-type]


def test_other_zone_data_matters_where_a_schedule_has_a_zone() -> None:
    zoned = _described('cron: "20 12 * * *"', "timezone: Europe/Rome")
    plain = _described('cron: "20 12 * * *"')
    (said,) = zone_data("2026f", ["2026e", "2026f", "2026e"], [zoned, plain])
    assert said.startswith("RLY307 zone data is 2026f here and 2026e on 2 of 3 live workers: firings of 1 schedule ")
    assert zone_data("2026f", ["2026f"], [zoned]) == ()
    assert zone_data("2026f", ["2026e"], [plain, _described("every: 1h")]) == ()
    assert zone_data("2026f", [], [zoned]) == ()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"paused_at": _NOW - timedelta(days=3, hours=1)}, "no reason: billing/nightly since 2026-09-26 (3 days)"),
        ({"paused_at": _NOW - timedelta(days=3), "pause_reason": "supplier is down"}, ""),
        ({"paused_at": _NOW - timedelta(days=3), "paused_until": _NOW + timedelta(days=1)}, ""),
        ({"paused_at": _NOW - timedelta(hours=23)}, ""),
        (
            {"paused_at": _NOW - timedelta(days=3), "paused_until": _NOW - timedelta(hours=1), "pause_reason": "x"},
            "past the end of the pause: billing/nightly should have gone on at 2026-09-29 09:15Z",
        ),
        ({"paused_at": _NOW - timedelta(days=3), "paused_until": _NOW - timedelta(seconds=30)}, ""),
        ({}, ""),
    ],
)
def test_a_forgotten_pause(fields: dict[str, object], words: str) -> None:
    found = long_pauses({_NAME: _paused(**fields)}, {_NAME}, _NOW)
    assert len(found) == bool(words)
    assert all(words in said and said.startswith("RLY507 ") and "relayctl resume" in said for said in found)


def test_their_pages_say_what_they_say() -> None:
    zoned = _described('cron: "20 12 * * *"', "timezone: Europe/Rome")
    (said,) = zone_data("2026f", ["2026e", "2026f", "2026e"], [zoned])
    assert pages()["RLY307"].bad.shown.rstrip().endswith(said.partition(":")[0])
    for code in ("RLY307", "RLY507", "RLY605", "RLY705"):
        assert BY_CODE[code].is_of_plan


def test_the_page_of_a_rename_shows_one() -> None:
    trigger = ('cron: "20 12 * * *"',)
    before = Desired(descriptions={"sample": _described(*trigger)})

    def renamed(name: str, *lines: str) -> list[str]:
        after = Desired(descriptions={"sample": _described(*trigger, *lines, name=name)})
        return [each.renamed_to for each in compare(after, before, now=_NOW).changes if each.renamed_to]

    page = pages()["RLY705"]
    bad, good = page.bad.shown.split(), page.good.shown.splitlines()
    assert renamed(bad[1]) == ["nightly-cleanup"]
    assert renamed(good[0].removeprefix("name: "), good[1]) == []


def test_a_pause_of_what_the_templates_do_not_declare_is_nobodys() -> None:
    assert long_pauses({_NAME: _paused(paused_at=_NOW - timedelta(days=9))}, set(), _NOW) == ()


def test_a_secret_without_value_is_named_with_its_apps() -> None:
    each = _described("every: 1h", top="secrets: {A: crm-token, B: other}\n")
    (said,) = undefined_secrets({"billing": each, "crm": each}, {"other"})
    assert said.startswith("RLY605 1 secret has no value on this machine: crm-token (in billing, crm); ")
    assert said.endswith("relayctl secret set crm-token")
    assert undefined_secrets({"billing": each}, {"other", "crm-token"}) == ()


def test_many_are_counted_and_a_few_named() -> None:
    registry = {("a", f"s{number}"): _paused(paused_at=_NOW - timedelta(days=2)) for number in range(7)}
    (said,) = long_pauses(registry, registry.keys(), _NOW)
    assert "a/s2" in said
    assert "a/s3" not in said
    assert "and 4 more" in said
