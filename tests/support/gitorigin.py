"""A real git repository that a source follows, and its pushes."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATE = "runtime: python\nevents: [{handler: jobs.on, pattern: {kind: [x]}}]\n"
NIGHTLY = 'schedules: [{{name: tick, handler: jobs.on, cron: "{minute} 3 29 2 *"}}]\n'
BROKEN = "runtime: python\nschedules: []\nbogus: true\n"
_WHO = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "n"), ("EMAIL", "e@example.com"))
}


class Origin:
    """A bare repository and a work tree from which it is pushed to. Apps lie in `apps`."""

    def __init__(self, base: Path, *, like: Origin | None = None) -> None:
        """With `like` it begins as a copy of another one, which is quicker."""
        self.bare = base / "origin.git"
        self.work = base / "work"
        self.apps = self.work / "apps"
        if like is not None:
            shutil.copytree(like.bare, self.bare)
            shutil.copytree(like.work, self.work, symlinks=True)
            config = self.work / ".git" / "config"
            config.write_text(config.read_text().replace(str(like.bare), str(self.bare)))
            return
        self.git("init", "-q", "--bare", "-b", "main", str(self.bare), at=base)
        self.git("init", "-q", "-b", "main", str(self.work), at=base)
        self.git("remote", "add", "origin", str(self.bare))
        self.apps.mkdir()

    @property
    def url(self) -> str:
        return f"file://{self.bare}"

    def git(self, *words: str, at: Path | None = None) -> str:
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        environ = {**kept, **_WHO, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", *words], cwd=at or self.work, env=environ, capture_output=True, text=True, timeout=30
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def app(self, name: str, text: str = TEMPLATE, *, minute: int | None = None) -> Path:
        """Write an app, with one schedule that does not fire during a test where `minute` is given."""
        folder = self.apps / name
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "jobs.py").exists():
            (folder / "jobs.py").write_text("def on(event):\n    pass\n")
        (folder / "template.yaml").write_text(text + ("" if minute is None else NIGHTLY.format(minute=minute)))
        return folder

    def push(self, *words: str) -> str:
        """Commit all there is and push it; the commit."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "change")
        self.git("push", "-q", *words, "origin", "HEAD:main")
        return self.git("rev-parse", "HEAD")
