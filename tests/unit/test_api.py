"""The Python door: reading a tree, comparing it, and the errors it raises."""

from __future__ import annotations

import subprocess
import sys
import traceback
from datetime import timedelta
from pathlib import Path

import pytest
from support.described import NOW
from support.templates import schedule, write_app

from relayctl import api
from relayctl.core.plan import Action
from relayctl.errors import BrokerUnavailable, NoBroker, NoTemplates, UsageError
from relayctl.host.clock import SystemClock


def test_a_tree_is_read_and_compared_with_nothing(tmp_path: Path) -> None:
    write_app(tmp_path, "billing", schedule("every: 1m"))
    write_app(tmp_path, "crm", schedule("every: soon"))
    (write_app(tmp_path, "odd", "") / "template.yaml").rename(tmp_path / "odd" / "template.yml")
    desired = api.read_desired(tmp_path, NOW)
    assert list(desired.descriptions) == ["billing"]
    assert sorted(each.app for each in desired.broken) == ["crm", "odd"]
    plan = api.plan_of(desired, None, now=NOW)
    assert {change.action for change in plan.changes} == {Action.CREATE}
    assert [held.broken.app for held in plan.held] == ["crm", "odd"]


def test_a_plan_where_no_broker_is(tmp_path: Path) -> None:
    write_app(tmp_path / "apps", "billing", schedule("every: 1m"))
    plan = api.plan(tmp_path / "apps", api.Place(state_dir=tmp_path / "state"), now=NOW, horizon=timedelta(hours=1))
    assert {change.action for change in plan.changes} == {Action.CREATE}
    assert plan.fires == {("billing", "nightly"): (0, 60)}
    with pytest.raises(BrokerUnavailable) as found:
        api.plan(tmp_path / "apps", api.Place(redis_url="redis://127.0.0.1:1"))
    assert found.value.message == "redis://127.0.0.1:1 cannot be reached: connection refused"
    # What Python prints of an error that nobody catches has the way out, and nothing of the client library.
    shown = "".join(traceback.format_exception(found.value))
    assert shown.endswith(f"\nhelp: {found.value.help}\n")
    assert "/redis/" not in shown


def test_what_is_exported_is_there() -> None:
    assert sorted(api.__all__) == list(api.__all__)
    assert all(getattr(api, name).__doc__ for name in api.__all__)


def test_no_templates(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NoTemplates):
            api.read_desired(place, NOW)


def test_where_no_broker_is(tmp_path: Path) -> None:
    place = api.Place(redis_url=None, state_dir=tmp_path / "state")
    with pytest.raises(NoBroker):
        api.observe(place, SystemClock())
    assert api.observe_or_nothing(place, SystemClock()) is None
    (tmp_path / "state").mkdir()
    assert api.observe_or_nothing(place, SystemClock()) is None


def test_a_named_broker_is_never_replaced_by_nothing(tmp_path: Path) -> None:
    for url, error in (("redis://127.0.0.1:1", BrokerUnavailable), ("nonsense://x", UsageError)):
        with pytest.raises(error):
            api.observe_or_nothing(api.Place(redis_url=url, state_dir=tmp_path), SystemClock())


def test_importing_it_loads_no_client() -> None:
    program = "import sys, relayctl.api; print('redis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"
