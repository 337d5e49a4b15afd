"""The same service from another directory: replaced where the app moved, and not where only the revision did."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from relayctl.templates.load import load_app
from relayctl.worker.services import _specs_of
from relayctl.worker.snapshot import LiveApp

TEMPLATE = "runtime: python\nservices: [{name: web, command: [python, web.py], port: 8300}]\n"


def live(root: Path, place: str) -> LiveApp:
    loaded = load_app(root / "app", root=root)
    assert loaded.app is not None, loaded.problems
    return LiveApp(
        app=loaded.app, revision=loaded.digest, template=loaded.template_digest, directory=root / "app", place=place
    )


@pytest.mark.parametrize(("place", "is_same"), [("releases of relay/app", True), ("", False)])
def test_another_revision_of_the_same_place_replaces_it_only_for_its_code(
    tmp_path: Path, place: str, is_same: bool
) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    (first / "app").mkdir(parents=True)
    (first / "app" / "web.py").write_text("serve()\n")
    (first / "app" / "template.yaml").write_text(TEMPLATE)
    shutil.copytree(first, second)
    (second / "app" / "template.yaml").write_text(TEMPLATE + "# an edit that is about something else\n")
    before, after = _specs_of(live(first, place))["web"], _specs_of(live(second, place))["web"]
    assert (before.version == after.version) is is_same
    (second / "app" / "web.py").write_text("serve(anew)\n")
    assert _specs_of(live(second, place))["web"].version != before.version
