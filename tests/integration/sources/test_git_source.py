"""A git repository as a source: which commit is in force, what is held, and what a place that cannot be asked does."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from support.gitorigin import BROKEN, TEMPLATE, Origin

from relayctl.host.clock import HeldClock, SystemClock
from relayctl.sources.git import GitSource
from relayctl.sources.gitcommand import GitCommand
from relayctl.sources.gitplace import git_place


class Follower:
    """One worker's source on an origin, with its state on disk."""

    def __init__(self, base: Path, url: str, *, ref: str = "main", path: str = "apps", **more: Any) -> None:
        self.folder = base / "state" / "git"
        self.url, self.ref, self.path, self.more = url, ref, path, more
        self.facts: list[Any] = []
        self.open()

    def open(self) -> GitSource:
        """As another process does."""
        place = git_place(self.url, self.ref, self.path)
        git = GitCommand(os.environ)
        self.source = GitSource(place, self.folder, git, SystemClock(), self.facts.append, **self.more)
        return self.source

    def pull(self) -> bool:
        return self.source.pull(lambda: False)

    def revision(self) -> str:
        return self.source.look().revision

    def told(self, event: str) -> list[Any]:
        return [fact for fact in self.facts if fact.event == event]

    def trees(self) -> set[str]:
        return {entry.name for entry in (self.folder / "trees").iterdir() if entry.is_dir()}


@pytest.fixture(scope="module")
def first_origin(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    made = Origin(tmp_path_factory.mktemp("origin"))
    made.app("a", minute=1)
    made.app("b", minute=1)
    made.push()
    return made


@pytest.fixture
def origin(tmp_path: Path, first_origin: Origin) -> Origin:
    return Origin(tmp_path, like=first_origin)


@pytest.fixture
def follower(tmp_path: Path, origin: Origin) -> Follower:
    made = Follower(tmp_path, origin.url)
    assert made.source.look().trouble
    assert made.pull(), made.source.standing
    return made


def test_the_newest_commit_is_in_force_and_what_did_not_change_stays_where_it_is(
    origin: Origin, follower: Follower
) -> None:
    first = follower.source.look()
    assert set(first.apps) == {"a", "b"}
    assert follower.source.load("a").app is not None
    origin.app("b", minute=2)
    second = origin.push()
    assert follower.pull()
    after = follower.source.look()
    assert (after.revision, after.is_settled, after.stale) == (second, True, None)
    assert after.apps["a"] == first.apps["a"], "an app that nobody edited would be deployed anew"
    assert after.apps["b"].directory.parent == follower.source.root
    assert "2 3 29 2 *" in (after.apps["b"].directory / "template.yaml").read_text()
    assert [fact.was for fact in follower.told("revision-taken")] == ["", first.revision[:12]]
    assert follower.source.standing.words.endswith(
        f"at {second[:12]} since {follower.source.standing.since:%Y-%m-%dT%H:%M:%SZ}"
    )


def test_a_commit_that_does_not_validate_is_held_whole_and_told_once(origin: Origin, follower: Follower) -> None:
    good = follower.revision()
    origin.app("a", BROKEN)
    origin.app("c", minute=3)
    bad = origin.push()
    for _ in range(2):
        assert follower.pull()
    assert follower.revision() == good
    assert "c" not in follower.source.look().apps
    [held] = follower.told("revision-held")
    assert (held.revision, held.in_force) == (bad[:12], good[:12])
    assert held.problem.startswith("a/template.yaml:")
    [note] = follower.source.standing.notes
    assert bad[:12] in note
    origin.app("a", minute=1)
    mended = origin.push()
    assert follower.pull()
    assert follower.revision() == mended
    assert follower.source.standing.notes == ()


def test_a_first_start_on_an_unsound_commit_takes_the_last_sound_one(tmp_path: Path, origin: Origin) -> None:
    good = origin.git("rev-parse", "HEAD")
    for _ in range(2):
        origin.app("a", BROKEN + "# more\n" * len(origin.git("log", "--oneline")))
        origin.push()
    fresh = Follower(tmp_path, origin.url)
    assert fresh.pull()
    assert fresh.revision() == good
    assert len(fresh.told("revision-held")) == 1
    assert fresh.source.standing.held is not None


def test_a_place_that_is_away_changes_nothing_and_says_since_when(origin: Origin, follower: Follower) -> None:
    before = follower.source.look()
    away = origin.bare.with_name("away")
    origin.bare.rename(away)
    assert not follower.pull()
    since = follower.source.standing.trouble
    assert not follower.pull()
    after = follower.source.look()
    assert (after.apps, after.trouble) == (before.apps, None)
    assert "no repository there" in (after.stale or "")
    assert follower.source.standing.trouble == since
    away.rename(origin.bare)
    assert follower.pull()
    assert follower.source.look().stale is None


def test_a_restart_without_the_place_goes_on_with_what_was_taken(origin: Origin, follower: Follower) -> None:
    before = follower.revision()
    shutil.rmtree(origin.bare)
    source = follower.open()
    assert source.recall()
    assert source.look().revision == before
    assert source.load("a").app is not None
    assert not follower.pull()
    assert set(source.look().apps) == {"a", "b"}


def test_files_that_were_torn_are_laid_out_again_from_what_was_fetched(origin: Origin, follower: Follower) -> None:
    before = follower.source.look()
    (before.apps["a"].directory / "template.yaml").write_text("")
    source = follower.open()
    assert source.recall()
    assert source.look().apps == before.apps
    assert source.load("a").app is not None


@pytest.mark.parametrize("damage", ["{", '{"v": 9}', '{"v": 1, "revision": "../..", "digest": "", "since": ""}', "[]"])
def test_a_damaged_note_of_what_was_taken_is_no_start(follower: Follower, damage: str) -> None:
    (follower.folder / "trees" / "current.json").write_text(damage)
    assert not follower.open().recall()
    assert follower.pull()


def test_a_damaged_copy_is_fetched_anew(origin: Origin, follower: Follower) -> None:
    for pack in (follower.folder / "repo.git" / "objects").rglob("*"):
        if pack.is_file():
            pack.chmod(0o600)
            pack.write_bytes(b"garbage")
    (follower.folder / "repo.git" / "shallow.lock").touch()
    origin.app("b", minute=2)
    second = origin.push()
    assert follower.pull(), follower.source.standing
    assert follower.revision() == second


def test_a_rewritten_history_and_a_ref_that_goes(origin: Origin, follower: Follower) -> None:
    origin.app("b", minute=2)
    origin.git("add", "-A")
    origin.git("commit", "-q", "--amend", "-m", "rewritten")
    rewritten = origin.push("--force")
    assert follower.pull()
    assert follower.revision() == rewritten
    origin.git("push", "-q", str(origin.bare), f"{rewritten}:refs/heads/other")
    origin.git("update-ref", "-d", "refs/heads/main", at=origin.bare)
    assert not follower.pull()
    assert "there is no main there" in follower.source.standing.notes[0]
    assert follower.revision() == rewritten


def test_tags_and_commits_can_be_followed(tmp_path: Path, origin: Origin) -> None:
    first = origin.git("rev-parse", "HEAD")
    origin.git("tag", "-a", "v1", "-m", "v1")
    origin.git("push", "-q", "origin", "v1")
    origin.app("b", minute=2)
    origin.push()
    origin.git("config", "uploadpack.allowAnySHA1InWant", "true", at=origin.bare)
    for number, ref in enumerate(("v1", first)):
        follower = Follower(tmp_path / str(number), origin.url, ref=ref)
        assert follower.pull(), follower.source.standing
        assert follower.revision() == first


def test_a_folder_that_is_not_in_the_commit_holds_it(tmp_path: Path, origin: Origin) -> None:
    missing = Follower(tmp_path / "one", origin.url, path="elsewhere")
    assert missing.pull()
    assert "there is no folder elsewhere" in missing.told("revision-held")[0].problem
    assert "there is no folder elsewhere" in (missing.source.look().trouble or "")
    root = Follower(tmp_path / "two", origin.url, path=".")
    origin.git("mv", "apps/a", "a")
    origin.push()
    assert root.pull()
    assert "a" in root.source.look().apps


def test_a_commit_that_could_not_be_laid_out_is_tried_again(origin: Origin, follower: Follower) -> None:
    (origin.apps / "a" / "large.bin").write_bytes(bytes(1 << 20))
    large = origin.push()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, hard))
    try:
        assert not follower.pull()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert follower.told("revision-held") == [], "the commit is not to blame"
    assert "cannot be laid out" in follower.source.standing.notes[0]
    assert follower.pull()
    assert follower.revision() == large


def test_what_could_not_be_written_down_is_written_later(origin: Origin, follower: Follower) -> None:
    note = follower.folder / "trees" / "current.json"
    note.unlink()
    note.mkdir()
    origin.app("b", minute=2)
    second = origin.push()
    assert not follower.pull()
    note.rmdir()
    assert follower.pull()
    assert follower.open().recall()
    assert follower.revision() == second


def test_a_revision_that_nobody_thought_of_is_trouble_and_no_end(
    origin: Origin, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.app("b", minute=2)
    second = origin.push()
    with monkeypatch.context() as patched:
        patched.setattr(follower.source, "_fill", lambda *_: 1 // 0)
        assert not follower.pull()
    assert "ZeroDivisionError" in follower.source.standing.notes[0]
    assert follower.pull()
    assert follower.revision() == second


def test_what_a_killed_checkout_left_goes(origin: Origin, follower: Follower) -> None:
    trees = follower.folder / "trees"
    names = ("aa.4194305.x.new", "bb.4194305.old")
    for name in names:
        (trees / name / "sub").mkdir(parents=True)
    (trees / "aa.4194305.x.new.index").touch()
    mine = trees / f"cc.{os.getpid()}.x.new"
    mine.mkdir()
    follower.source.settle(list)
    assert [entry.name for entry in trees.iterdir() if ".new" in entry.name or ".old" in entry.name] == [mine.name]


def test_links_stay_within_the_apps_and_modes_survive(origin: Origin, follower: Follower) -> None:
    (origin.apps / "same").symlink_to("a")
    (origin.apps / "a" / "run.sh").write_text("#!/bin/sh\n")
    (origin.apps / "a" / "run.sh").chmod(0o755)
    linked = origin.push()
    assert follower.pull()
    view = follower.source.look()
    assert view.revision == linked
    assert view.apps["same"].directory == view.apps["a"].directory
    assert (view.apps["a"].directory / "run.sh").stat().st_mode & stat.S_IXUSR
    (origin.apps / "out").symlink_to("/etc")
    origin.push()
    assert follower.pull()
    assert follower.revision() == linked
    assert "link that leaves" in follower.told("revision-held")[0].problem


def test_nothing_that_the_repository_brings_is_run(origin: Origin, follower: Follower, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    (origin.apps / ".gitattributes").write_text("* filter=evil\n")
    (origin.work / ".gitmodules").write_text('[submodule "x"]\n\tpath = apps/x\n\turl = ext::touch ran\n')
    config = tmp_path / "gitconfig"
    config.write_text(f'[filter "evil"]\n\tsmudge = touch {mark}; cat\n\trequired = true\n')
    hooks = follower.folder / "repo.git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {mark}\n")
        (hooks / name).chmod(0o755)
    origin.app("b", minute=2)
    second = origin.push()
    follower.source._git = GitCommand({**os.environ, "GIT_CONFIG_GLOBAL": str(config)})
    follower.source._repository._git = follower.source._git
    assert follower.pull()
    assert follower.revision() == second
    assert not mark.exists()


def test_old_commits_go_and_what_is_in_use_stays(origin: Origin, tmp_path: Path) -> None:
    from datetime import UTC, datetime, timedelta

    follower = Follower(tmp_path, origin.url)
    clock: Any = HeldClock(datetime.now(UTC))
    follower.source._clock = clock
    used: set[Path] = set()
    for minute in range(2, 8):
        origin.app("b", minute=minute)
        commit = origin.push()
        assert follower.pull()
        os.utime(follower.source.look().apps["b"].directory.parent, (minute, minute))
        if minute == 3:
            used = {follower.source.look().apps["b"].directory}
    unchanged = follower.source.look().apps["a"].directory.parent.name
    clock.advance(timedelta(seconds=60))
    follower.source.settle(lambda: None)
    assert len(follower.trees()) == 6, "who cannot say what runs must not lose it"
    clock.advance(timedelta(seconds=60))
    follower.source.settle(lambda: used)
    kept = follower.trees()
    assert {commit, unchanged, next(iter(used)).parent.name} <= kept
    assert len(kept) == 5, "three new ones, one in use, and where an app changed last"


def test_a_peer_on_the_same_state_directory_keeps_what_it_uses(origin: Origin, tmp_path: Path) -> None:
    peer = Follower(tmp_path, origin.url)
    assert peer.pull()
    follower = Follower(tmp_path, origin.url)
    for minute in range(2, 6):
        origin.app("a", minute=minute)
        origin.app("b", minute=minute)
        origin.push()
        assert follower.pull()
    follower.source.settle(set)
    first = peer.source.look().apps["a"].directory
    assert first.is_dir()
    peer.source._checkouts.close()
    follower.source._settle_at = 0.0
    follower.source.settle(set)
    assert not first.exists()


def test_a_stop_ends_a_fetch_that_hangs_with_all_that_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    helper = tmp_path / "ssh"
    helper.write_text(f"#!/bin/sh\nsleep 300 &\necho $! $$ > {pids}\nwait\n")
    helper.chmod(0o755)
    place = git_place("ssh://git@example.invalid/x.git", "main", "apps")
    git = GitCommand({**os.environ, "GIT_SSH_COMMAND": str(helper)})
    source = GitSource(place, tmp_path / "git", git, SystemClock(), lambda _fact: None)
    stop = threading.Event()
    thread = threading.Thread(target=source.pull, args=(stop.is_set,))
    thread.start()
    from support.broker import await_fact, is_running

    await_fact(lambda: pids.exists() and len(pids.read_text().split()) == 2, "it does not begin", within_s=20)
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    for pid in pids.read_text().split():
        await_fact(lambda pid=pid: not is_running(int(pid)), "a process is left", within_s=10)
    assert source.standing.trouble is None, "that nobody wants to wait is no trouble of the place"


def test_an_only_worker_sees_its_apps_and_the_commit_is_judged_whole(origin: Origin, tmp_path: Path) -> None:
    follower = Follower(tmp_path, origin.url, only={"b"})
    assert follower.pull()
    assert set(follower.source.look().apps) == {"b"}
    assert follower.source.is_partial
    good = follower.revision()
    origin.app("a", BROKEN)
    origin.push()
    assert follower.pull()
    assert follower.revision() == good


def test_a_template_without_errors_but_with_warnings_is_sound(origin: Origin, follower: Follower) -> None:
    origin.app("w", TEMPLATE + 'schedules: [{name: s, handler: jobs.on, cron: "30 2 * * *", timezone: Europe/Rome}]\n')
    warned = origin.push()
    assert follower.pull()
    assert follower.revision() == warned


def test_a_token_lets_git_in_and_stands_in_no_command_line_nor_message(tmp_path: Path) -> None:
    import base64
    from http.server import BaseHTTPRequestHandler, HTTPServer

    heard: list[str | None] = []
    lines: list[bytes] = []

    class Host(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers.get("Authorization"))
            for process in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    lines.append(process.read_bytes())
                except OSError:
                    continue
            self.send_error(403)

        def log_message(self, *_args: object) -> None:
            pass

    token = tmp_path / "token"
    token.write_text("very-secret-token\n")
    pair = base64.b64encode(b"x-access-token:very-secret-token")
    with HTTPServer(("127.0.0.1", 0), Host) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        place = git_place(f"http://127.0.0.1:{server.server_port}/team/jobs.git", "main", "apps", token)
        source = GitSource(place, tmp_path / "git", GitCommand(os.environ), SystemClock(), lambda _fact: None)
        assert not source.pull(lambda: False)
        server.shutdown()
    assert heard[0] == f"Basic {pair.decode()}"
    assert any(b"/team/jobs.git" in line for line in lines)
    assert not any(b"very-secret-token" in line or pair in line for line in lines)
    assert "access was refused" in source.standing.notes[0]
    assert "very-secret-token" not in str(source.standing)


def test_what_git_leaves_running_on_purpose_keeps_no_fetch_waiting(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    helper = tmp_path / "ssh"
    helper.write_text(f"#!/bin/sh\nsleep 60 >/dev/null &\necho $! > {pid}\nexit 1\n")
    helper.chmod(0o755)
    place = git_place("git@example.invalid:x.git", "main", "apps")
    git = GitCommand({**os.environ, "GIT_SSH_COMMAND": str(helper)})
    source = GitSource(place, tmp_path / "git", git, SystemClock(), lambda _fact: None)
    begun = SystemClock().monotonic()
    assert not source.pull(lambda: False)
    assert SystemClock().monotonic() - begun < 30
    os.kill(int(pid.read_text()), 9)
