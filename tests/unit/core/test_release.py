"""Releases as values: what is kept comes back, what keeps a worker from one, and how much may go at once."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from relayctl.core.release import Draft, Held, Release, lacking, tree_digest
from relayctl.core.removal import Limits, Removal, refuse_removal, removal_limit
from relayctl.errors import Refused

DRAFT = Draft(
    id="a1",
    base=117,
    digest="d" * 64,
    tree="t" * 40,
    by="ci@main",
    revisions={"billing": "b1" * 20, "crm": "c1" * 20},
    message="with | a bar",
    rolls_back_to=3,
    counts={"create": 2},
)
RELEASE = Release(serial=118, made_at=datetime(2026, 9, 28, 16, 2, 3, 456_000, UTC), draft=DRAFT)
REVISIONS = DRAFT.revisions


def held(**changes: Any) -> Held:
    apps = changes.get("apps", dict(REVISIONS))
    return Held(**{"apps": apps, "running": tree_digest(apps)} | changes)


def test_a_record_comes_back_as_it_was() -> None:
    assert Release.from_record(118, RELEASE.record) == RELEASE


def test_a_record_of_a_newer_version_is_left() -> None:
    made, id_, digest, text = RELEASE.record.split("|", 3)
    newer = json.dumps(json.loads(text) | {"v": 2})
    assert Release.from_record(118, "|".join((made, id_, digest, newer))) is None
    more = json.dumps(json.loads(text) | {"later": 1})
    assert Release.from_record(118, "|".join((made, id_, digest, more))) == RELEASE


def test_the_tree_digest_is_that_of_a_view_whatever_the_order() -> None:
    assert tree_digest(REVISIONS) == tree_digest(dict(reversed(REVISIONS.items()))) != tree_digest({})


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (held(), ()),
        (None, ("it has not said yet what it runs",)),
        (held(apps={"billing": "b1" * 20}), ("app crm is not there yet",)),
        (held(apps={"billing": "b1" * 20}, is_partial=True), ()),
        (
            held(apps={"billing": "b0" * 20}, is_partial=True),
            ("app billing is at b0b0b0b0 and not yet at b1b1b1b1",),
        ),
        (held(apps={**REVISIONS, "old": "o"}), ("app old is still there",)),
        (held(pending=("crm",)), ("app crm: its new code is being loaded",)),
        (
            held(refused={"crm": "crm.sync: no module named x"}),
            ("app crm: crm.sync: no module named x; it admits nothing new of crm",),
        ),
        (
            held(apps={**REVISIONS, "crm": "c0" * 20}, broken={"crm": "crm/template.yaml:3 RLY101 unknown key"}),
            ("app crm: crm/template.yaml:3 RLY101 unknown key",),
        ),
        (held(running="of before"), ("it is about to say what it runs",)),
    ],
    ids=["on it", "silent", "lacks", "partial", "behind", "left over", "pending", "refused", "broken", "stale"],
)
def test_what_keeps_a_worker_from_a_release(what: Held | None, said: tuple[str, ...]) -> None:
    assert lacking(what, REVISIONS) == said


def removal(**changes: Any) -> Removal:
    return Removal(**{"removed": 0, "registered": 41, "left": 41, "apps_left": 3} | changes)


@pytest.mark.parametrize(("registered", "limit"), [(0, 5), (25, 5), (30, 6), (41, 8), (10_000, 2_000)])
def test_a_fifth_may_go_and_five_in_any_case(registered: int, limit: int) -> None:
    assert removal_limit(registered) == limit
    refuse_removal(removal(removed=limit, registered=registered), Limits())
    with pytest.raises(Refused, match=f"{limit + 1} of {registered} schedules \\(limit {limit}\\)"):
        refuse_removal(removal(removed=limit + 1, registered=registered), Limits())


def test_what_was_agreed_to_may_go_and_no_more() -> None:
    gone = removal(removed=17, left=24, apps_gone=("crm", "search"))
    with pytest.raises(Refused, match="crm, search are gone from the tree") as caught:
        refuse_removal(gone, Limits())
    assert "--max-removals 17" in str(caught.value.help)
    refuse_removal(gone, Limits(max_removals=17))
    with pytest.raises(Refused, match="limit 16"):
        refuse_removal(gone, Limits(max_removals=16))
    with pytest.raises(Refused, match="limit 0"):
        refuse_removal(removal(removed=1), Limits(max_removals=0))


@pytest.mark.parametrize("apps_left", [0, 2])
def test_everything_goes_only_where_that_is_said(apps_left: int) -> None:
    emptied = removal(removed=2, registered=2, left=0, apps_left=apps_left)
    for limits in (Limits(), Limits(max_removals=1000)):
        with pytest.raises(Refused, match=r"refusing to remove everything: .*, and 2 schedules run\n"):
            refuse_removal(emptied, limits)
    with pytest.raises(Refused, match="and 1 schedule runs\n"):
        refuse_removal(replace(emptied, removed=1, registered=1), Limits())
    refuse_removal(emptied, Limits(allow_empty=True))
    refuse_removal(replace(emptied, removed=0, apps_left=2), Limits())
