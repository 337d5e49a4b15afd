"""What releases look like: listed, in full, just applied, not taken by all, and asked about."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from support.described import NOW, described, running, sample
from support.schema import conforms
from syrupy.assertion import SnapshotAssertion

from relayctl.core.diff import make_plan
from relayctl.core.plan import Plan
from relayctl.core.release import Draft, Release
from relayctl.render import releases as render
from relayctl.render.releasewords import recoded_line
from relayctl.render.status import running_words

FIRST = Release(
    serial=117,
    made_at=datetime(2026, 9, 27, 8, 0, 1, tzinfo=UTC),
    draft=Draft(
        id="a",
        base=116,
        digest="1a" * 32,
        tree="2b" * 20,
        by="ci@main",
        revisions={"billing": "b1" * 20, "crm": "c1" * 20},
        message="the quarter's reports",
        commit="3f9c1ab2" * 5,
        schedules=41,
        counts={"create": 2, "change": 1, "refire": 1, "restore": 1, "remove": 3},
    ),
)
SECOND = Release(
    serial=118,
    made_at=datetime(2026, 9, 28, 16, 2, 3, tzinfo=UTC),
    draft=replace(FIRST.draft, base=117, digest="3c" * 32, commit="", message="", rolls_back_to=116, counts={}),
)


def _plan() -> Plan:
    before = {
        "billing": sample("name: nightly-cleanup, cron: '0 3 * * *', timezone: Europe/Rome", name="billing"),
        "crm": sample("name: legacy-export, cron: '20 4 * * 0'", name="crm"),
    }
    after = {
        "billing": sample(
            "name: nightly-cleanup, cron: '30 2 * * *', timezone: Europe/Rome",
            "name: invoice-run, cron: '15 6 1 * *', timezone: Europe/Rome",
            name="billing",
        ),
        "crm": sample(name="crm"),
    }
    return make_plan(described(after), running(described(before)), now=NOW)


def _applied(**changes: object) -> render.Applied:
    known: dict[str, object] = {
        "release": SECOND,
        "plan": _plan(),
        "recoded": ("search",),
        "previous": 117,
        "lacks": {"worker-1": (), "worker-2": (), "worker-3": ()},
        "waited": timedelta(seconds=1.8),
        "took": timedelta(seconds=2.4),
    }
    return render.Applied(**known | changes)  # type: ignore[arg-type]


def test_listed(golden: SnapshotAssertion) -> None:
    listed = render.listing([SECOND, FIRST], frozenset({SECOND.digest}), 118)
    assert f"{listed}\n{render.listing([], frozenset(), 0)}" == golden


def test_one_in_full(golden: SnapshotAssertion) -> None:
    full = [
        render.details(FIRST, is_kept=False, is_in_force=False),
        render.details(SECOND, is_kept=True, is_in_force=True),
    ]
    assert "\n".join(full) == golden


def test_in_the_heads_of_others(golden: SnapshotAssertion) -> None:
    heads = [
        running_words(3, "push", "prod", SECOND, 2),
        running_words(1, "push", "prod", SECOND, 1),
        running_words(0, "push", "prod", SECOND, 0),
        running_words(2, "push", "prod"),
    ]
    assert "".join(f"{head}\n" for head in heads) == golden


def test_applied(golden: SnapshotAssertion) -> None:
    done = [
        _applied(),
        _applied(previous=0, lacks={}, recoded=()),
        _applied(plan=make_plan({}, running({}), now=NOW), lacks=None),
    ]
    assert "\n".join(render.applied_text(each) for each in done) == golden


def test_not_taken_by_all(golden: SnapshotAssertion) -> None:
    behind = _applied(
        lacks={
            "worker-1": (),
            "worker-10": ("app crm is not there yet",),
            "worker-2": tuple(f"app a{number} is at 1111 and not yet at 2222" for number in range(5)),
        },
        waited=timedelta(seconds=60),
    )
    only = _applied(lacks={"worker-1": ("it has not said yet what it runs",)})
    words = [render.not_converged_words(each, by) for each, by in ((behind, 0), (only, 0), (behind, 119))]
    assert "".join(f"{each}\n\n" for each in words) == golden


def test_asked_about_and_nothing_to_do(golden: SnapshotAssertion) -> None:
    nothing = make_plan({}, running({}), now=NOW)
    removal = make_plan({}, running(described({"crm": sample("name: old, every: 1h", name="crm")})), now=NOW)
    lines = [
        render.question(_plan(), (), "prod"),
        render.question(removal, (), "prod"),
        render.question(nothing, ("crm", "search"), "prod"),
        render.question(nothing, (), "prod"),
        recoded_line(("crm", "search")),
        render.unchanged_text(SECOND, 41, 3, 3).rstrip(),
        render.unchanged_text(SECOND, 1, 0, 0).rstrip(),
        render.overtaken_words(118, FIRST),
        render.overtaken_words(118, None),
    ]
    assert "\n".join(lines) + "\n" == golden


def test_json(golden: SnapshotAssertion) -> None:
    listed = {
        "v": render.RELEASES_VERSION,
        "current": 118,
        "releases": [render.document(each, is_kept=True, is_in_force=each is SECOND) for each in (SECOND, FIRST)],
    }
    conforms(listed, "releases")
    done = render.applied_document(_applied(lacks={"worker-1": (), "worker-2": ("app crm is not there yet",)}))
    for document in (done, render.applied_document(_applied(lacks=None)), {"v": 1, "applied": False, "release": None}):
        conforms(document, "apply")
    assert json.dumps([listed, done], indent=2) + "\n" == golden
