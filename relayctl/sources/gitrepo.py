"""A shallow copy of the repository that is followed: fetch a ref, lay out the files of a commit. It decides nothing.

The copy is a cache: one that git can make nothing of is thrown away and fetched anew.
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path

from relayctl.errors import SourceUnavailable
from relayctl.sources.gitcommand import Answer, GitCommand
from relayctl.sources.gitplace import GitPlace

FETCH_WITHIN_S = 300.0
_CHECKOUT_WITHIN_S = 120.0
_QUICK_S = 30.0
_HEAD = "refs/relayctl/head"
_MOST_PACKS = 30
"""With more than these, what no commit needs any more is thrown away."""
_DAMAGE = re.compile(
    r"not a git repository|bad object|corrupt|loose object|unable to read tree|unpack-objects|index-pack"
    r"|unable to read sha1 file|missing (?:blob|tree|commit)|unresolved deltas|did not send all necessary|bad config"
    r"|is not a commit",
    re.IGNORECASE,
)


class NoFolder(SourceUnavailable):
    """The commit has no folder of apps, which is for the next commit to mend."""


class GitRepository:
    """Used by one thread at a time; whoever shares its folder takes turns."""

    def __init__(self, folder: Path, place: GitPlace, git: GitCommand) -> None:
        self._folder = folder
        self._place = place
        self._git = git

    def fetch(self, *, depth: int = 1) -> str:
        """The commit that the ref names now. Raises SourceUnavailable with the reason in words."""
        answer = self._fetch(depth)
        if answer.code and self._forget_if_damaged(answer):
            answer = self._fetch(depth)
        if answer.code:
            raise SourceUnavailable(_in_words(answer.words, self._place))
        commit = self.head()
        if commit is None:
            raise SourceUnavailable(f"{self._place.ref} is no commit there")
        self._tidy()
        return commit

    def head(self) -> str | None:
        """The commit that was fetched last; None where nothing was."""
        return self._ask("rev-parse", "--verify", "--quiet", f"{_HEAD}^{{commit}}")

    def ancestors(self, most: int) -> list[str]:
        """The commits before the one that was fetched last, as far as they were fetched, along its first parents."""
        listed = self._ask("rev-list", "--first-parent", f"--max-count={most + 1}", _HEAD)
        return (listed or "").split()[1:]

    def check_out(self, commit: str, directory: Path) -> None:
        """Lay out the apps' folder of `commit` in an empty directory. Raises NoFolder, SourceUnavailable."""
        tree = f"{commit}^{{tree}}" if self._place.path == "." else f"{commit}:{self._place.path}"
        if self._ask("cat-file", "-t", tree) != "tree":
            raise NoFolder(f"there is no folder {self._place.path} in commit {commit[:12]}")
        index = directory.with_name(f"{directory.name}.index")
        try:
            for words in (["read-tree", tree], ["checkout-index", "--all", "--quiet"]):
                answer = self._run(
                    f"--work-tree={directory}",
                    *words,
                    within_s=_CHECKOUT_WITHIN_S,
                    more={"GIT_INDEX_FILE": str(index)},
                )
                if answer.code:
                    self._forget_if_damaged(answer)
                    raise SourceUnavailable(f"commit {commit[:12]} cannot be laid out: {_last_line(answer.words)}")
        finally:
            for left in (index, index.with_name(f"{index.name}.lock")):
                with suppress(OSError):
                    left.unlink(missing_ok=True)

    def _forget_if_damaged(self, answer: Answer) -> bool:
        is_damaged = _DAMAGE.search(answer.words) is not None
        if is_damaged:
            shutil.rmtree(self._folder, ignore_errors=True)
        return is_damaged

    def _fetch(self, depth: int) -> Answer:
        if not (self._folder / "HEAD").exists():
            self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            made = self._git.run("init", "--quiet", "--bare", "--template=", str(self._folder), within_s=_QUICK_S)
            if made.code:
                return made
        # Whoever fetches here is alone, so a lock in it is a dead one's.
        for lock in self._folder.rglob("*.lock"):
            lock.unlink(missing_ok=True)
        return self._git.run(
            f"--git-dir={self._folder}",
            "fetch", "--quiet", "--no-tags", "--force", "--update-shallow", "--no-recurse-submodules",
            "--no-write-fetch-head", f"--depth={depth}",
            "--", self._place.url, f"+{self._place.ref}:{_HEAD}",
            within_s=FETCH_WITHIN_S,
            more=self._place.credentials(),
        )  # fmt: skip

    def _tidy(self) -> None:
        if sum(1 for _ in (self._folder / "objects" / "pack").glob("*.pack")) > _MOST_PACKS:
            self._run("gc", "--quiet", "--prune=now", within_s=_CHECKOUT_WITHIN_S)

    def _ask(self, *words: str) -> str | None:
        answer = self._run(*words, within_s=_QUICK_S)
        return None if answer.code else answer.output.strip()

    def _run(self, *words: str, within_s: float, more: dict[str, str] | None = None) -> Answer:
        return self._git.run(
            f"--git-dir={self._folder}", *words, within_s=within_s, more=more, is_bare_of_settings=True
        )


_MEANINGS = (
    (r"couldn't find remote ref|no such remote ref|not our ref|Server does not allow request for unadvertised",
     "there is no {ref} there"),
    (r"could not read (?:Username|Password)|Authentication failed|Permission denied|HTTP 40[13]|error: 40[13]",
     "access was refused ({line})"),
    (r"terminal prompts disabled|Host key verification failed|access denied", "access was refused ({line})"),
    (r"does not appear to be a git repository|repository .* not found|does not exist|error: 404|not found",
     "there is no repository there, or none that may be seen ({line})"),
)  # fmt: skip


def _in_words(words: str, place: GitPlace) -> str:
    line = _last_line(words).replace(place.url, place.shown_url)
    for pattern, meaning in _MEANINGS:
        if re.search(pattern, words, re.IGNORECASE):
            return meaning.format(ref=place.ref, line=line)
    return f"it cannot be fetched ({line})"


def _last_line(words: str) -> str:
    """The line that says most: git's own last verdict, unless a program below it said why."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("Please make sure", "and the repository exists"))]
    named = [line for line in telling if "Could not read from remote repository" not in line]
    line = (named or telling or ["git gave no reason"])[-1]
    return re.sub(r"^(?:fatal|error|remote): ", "", line)[:300]
