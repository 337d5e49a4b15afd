"""The way from a directory to an App: find, read, shape, meaning, handlers, rules, in that order. It runs no app code.

An app with any error has no `app`; the others of the tree are not affected by it.
"""

from __future__ import annotations

import copyreg
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType

from relayctl.core.cron import Cron, Dst
from relayctl.core.model import App
from relayctl.core.names import AppName, why_not_a_name
from relayctl.core.problem import Place, Problem, Severity
from relayctl.errors import os_reason
from relayctl.templates.document import Document
from relayctl.templates.find import TEMPLATE, AppDirectory, FileHashes, app_digest, digest_of, find_apps
from relayctl.templates.handlers import handler_problems
from relayctl.templates.meaning import app_from
from relayctl.templates.read import MAX_BYTES, read, unreadable
from relayctl.templates.rules.engine import USUAL, Manner, check_document
from relayctl.templates.rules.formers import Heir, contested, former_apps, heirs_of
from relayctl.templates.rules.herd import Member, herds, members_of
from relayctl.templates.rules.ignores import silenced
from relayctl.templates.shape import GENERAL_HELP, shape_problems
from relayctl.templates.spread import spread

_MEANT = re.compile(r'did you mean "([a-z_]+)"\?')


def _reduced(cron: Cron) -> tuple[Callable[[str, str, Dst], Cron], tuple[str, str, Dst]]:
    return Cron.parse, (cron.expression, cron.timezone, cron.dst)


# Zone data does not travel between processes; the receiver parses again, which it does once for each expression.
copyreg.pickle(Cron, _reduced)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """One app as it was read. `digest` covers all its files, `template_digest` the template alone."""

    name: AppName
    directory: Path
    app: App | None
    problems: tuple[Problem, ...] = ()
    digest: str = ""
    template_digest: str = ""
    schedules: int = 0
    """How many schedules the file declares, broken ones included."""
    is_readable: bool = True
    """Whether its text is YAML that can be looked into."""
    text: bytes = b""
    """The template as it was read, where that was asked for and it is valid."""
    members: tuple[Member, ...] = ()
    """What it takes to judge crowds over many apps, where dates may be stated."""
    heirs: tuple[Heir, ...] = ()
    """What it takes to judge moves over many apps, likewise."""

    @property
    def is_broken(self) -> bool:
        """Whether an error keeps the app from running."""
        return self.app is None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTree:
    """A whole tree. `trouble` says why the root could not be read; then the absence of apps means nothing."""

    root: Path
    apps: tuple[Loaded, ...] = ()
    problems: tuple[Problem, ...] = ()
    digest: str = ""
    trouble: str | None = None

    def valid(self) -> tuple[App, ...]:
        """The apps that can run."""
        return tuple(loaded.app for loaded in self.apps if loaded.app is not None)

    def app(self, name: str) -> Loaded | None:
        """The app of that name, valid or not."""
        return next((loaded for loaded in self.apps if loaded.name == name), None)


def load_app(
    directory: Path,
    *,
    root: Path,
    now: datetime | None = None,
    hashes: FileHashes | None = None,
    with_digest: bool = True,
    with_text: bool = False,
    manner: Manner = USUAL,
) -> Loaded:
    """The app in `directory`. Rules that state dates need `now`, an aware instant; without it they are left out."""
    name = AppName(directory.name)
    real = Path(os.path.realpath(directory))
    if not real.is_relative_to(Path(os.path.realpath(root))):
        problem = Problem(
            code="RLY707",
            severity=Severity.ERROR,
            place=Place(file=directory.as_posix()),
            message="this app is a link that leaves the apps directory",
            help="copy the app into the tree, or link within it",
        )
        return Loaded(name=name, directory=directory, app=None, problems=(problem,))
    where = AppDirectory(name=name, path=directory, real=real)
    return _load(where, now, hashes, with_digest=with_digest, with_text=with_text, manner=manner)


def _load(
    where: AppDirectory,
    now: datetime | None,
    hashes: FileHashes | None,
    *,
    with_digest: bool,
    with_text: bool = False,
    manner: Manner = USUAL,
) -> Loaded:
    file = (where.path / TEMPLATE).as_posix()
    # The digest first: an edit in between leaves it older than what was read, so that the next look reads again.
    digest = app_digest(where.real, hashes) if with_digest else ""
    data = _bytes_of(where, file)
    if isinstance(data, Problem):
        return Loaded(name=where.name, directory=where.path, app=None, problems=(data,), digest=digest)
    document = read(data, file)
    app, problems, schedules = _judged(document, file, where.name, where.real, now, manner)
    return Loaded(
        name=where.name,
        directory=where.path,
        app=app,
        problems=tuple(problems),
        digest=digest,
        template_digest=digest_of(data),
        schedules=schedules,
        is_readable=isinstance(document, Document),
        text=data if with_text and app is not None else b"",
    )


def check_text(
    data: bytes,
    file: str,
    name: AppName,
    directory: Path | None,
    now: datetime | None,
    *,
    manner: Manner = USUAL,
) -> tuple[App | None, list[Problem], int]:
    """The app in the text of a template, its problems, and how many schedules it declares.

    Without a directory handlers are not looked for: the text did not come from an app's place.
    """
    return _judged(read(data, file), file, name, directory, now, manner)


def _judged(
    document: Document | list[Problem],
    file: str,
    name: AppName,
    directory: Path | None,
    now: datetime | None,
    manner: Manner,
) -> tuple[App | None, list[Problem], int]:
    if isinstance(document, list):
        misnamed = _misnamed(name, file)
        return None, [misnamed] if misnamed is not None else document, 0
    return check_read(document, name, directory, now, manner=manner)


def check_read(
    document: Document, name: AppName, directory: Path | None, now: datetime | None, *, manner: Manner = USUAL
) -> tuple[App | None, list[Problem], int]:
    """The same of a template that was read already."""
    misnamed = _misnamed(name, document.source.file)
    if misnamed is not None:
        return None, [misnamed], 0
    shape = shape_problems(document)
    meaning = app_from(document, name)
    handlers = handler_problems(document, directory)
    problems = _one_per_cause(shape, [*meaning.problems, *handlers])
    problems = check_document(document, meaning, problems, now, directory=directory, manner=manner)
    problems.sort(key=lambda problem: problem.sort_key)
    broken = any(problem.is_error for problem in problems)
    listed = document.value.get("schedules")
    return (None if broken else meaning.app), problems, len(listed) if isinstance(listed, list) else 0


def _misnamed(name: AppName, file: str) -> Problem | None:
    why = why_not_a_name(name)
    if why is None:
        return None
    message = f"the directory name cannot be an app's name: {why}"
    return Problem(code="RLY702", severity=Severity.ERROR, place=Place(file=file), message=message)


def _bytes_of(where: AppDirectory, file: str) -> bytes | Problem:
    path = where.real / TEMPLATE
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            path = path.resolve(strict=True)
            if not path.is_relative_to(where.real.parent):
                return unreadable(file, "the template is a link that leaves the apps directory", "copy it into the app")
            status = path.stat()
        # Opening a pipe or a device would wait for ever, so ask first what it is.
        if not stat.S_ISREG(status.st_mode):
            return unreadable(file, "the template is not a regular file", "replace it by a file")
        with path.open("rb") as opened:
            return opened.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return unreadable(file, "the template is a link that leads nowhere", "restore its target, or remove it")
    except (OSError, RuntimeError) as error:
        reason = os_reason(error)
        return unreadable(file, f"the template cannot be read ({reason})", "check its permissions")


def _one_per_cause(shape: list[Problem], later: list[Problem]) -> list[Problem]:
    """What meaning says about a value is more exact than what its pattern said; what shape said is not said twice."""
    exact = {problem.place.path for problem in later if problem.place.path}
    kept = [problem for problem in shape if not (problem.help == GENERAL_HELP and problem.place.path in exact)]
    taken = {(problem.place.line, problem.place.column) for problem in kept}
    misspelt = [problem for problem in kept if problem.code == "RLY101"]
    for problem in later:
        at = (problem.place.line, problem.place.column)
        if at in taken and problem.code != "RLY102":
            continue
        if problem.code == "RLY102" and any(_is_missed(problem, key) for key in misspelt):
            continue
        kept.append(problem)
    return kept


def _is_missed(problem: Problem, misspelt: Problem) -> bool:
    """Whether what is missing is there, under a misspelt key: of the same item, or of the whole template."""
    meant = _MEANT.fullmatch(misspelt.help)
    is_near = misspelt.place.label in {"", problem.place.label}
    return meant is not None and is_near and re.search(rf"\b{meant[1]}\b", problem.message) is not None


def load_tree(
    root: Path,
    *,
    now: datetime | None = None,
    processes: int | None = None,
    hashes: FileHashes | None = None,
    with_digest: bool = True,
    with_apps: bool = True,
    manner: Manner = USUAL,
    known: Mapping[str, Loaded] = MappingProxyType({}),
) -> LoadedTree:
    """Every app under `root`, and all problems in order.

    `processes` None decides by the size of the tree. A worker passes the same `hashes` each time; a lint passes
    `with_digest=False` and `with_apps=False`: it wants the problems alone, and the apps of a large tree would fill the
    memory. Apps in `known` are taken as they were read.
    """
    tree = find_apps(root)
    if tree.trouble is not None:
        return LoadedTree(root=root, trouble=tree.trouble)
    new = tuple(app for app in tree.apps if app.name not in known)
    work = partial(load_part, now=now, hashes=hashes, with_digest=with_digest, with_apps=with_apps, manner=manner)
    # A caller that keeps hashes is a worker: its cache would stay empty in other processes.
    wanted = 1 if hashes is not None and processes is None else processes
    fresh = {each.name: each for each in spread(new, work, wanted)}
    loaded = [fresh[app.name] if app.name in fresh else known[app.name] for app in tree.apps]
    problems = [*tree.problems, *(problem for each in loaded for problem in each.problems)]
    if now is not None:
        over_all = herds((member for each in loaded for member in each.members), now)
        over_all += _contested(loaded, tree.apps)
        problems += [problem for problem in over_all if not (manner.with_ignores and _is_silenced(problem))]
    problems.sort(key=lambda problem: problem.sort_key)
    digest = _digest(loaded) if with_digest else ""
    return LoadedTree(root=root, apps=tuple(loaded), problems=tuple(problems), digest=digest)


def _digest(apps: Iterable[Loaded]) -> str:
    from relayctl.core.release import tree_digest

    return tree_digest({each.name: each.digest for each in apps})


def _contested(loaded: Sequence[Loaded], apps: Sequence[AppDirectory]) -> list[Problem]:
    heirs = [heir for each in loaded for heir in each.heirs]
    named = former_apps(heirs)
    # Few apps are named, and whoever wants the problems alone keeps none: these are read once more.
    formers = (_load(app, None, None, with_digest=False).app for app in apps if app.name in named)
    return contested(heirs, {f"{app.name}/{each.name}" for app in formers if app is not None for each in app.schedules})


def _is_silenced(problem: Problem) -> bool:
    """A finding over all apps comes after their files were put away, and is rare enough to open one again."""
    try:
        document = read(Path(problem.place.file).read_bytes(), problem.place.file)
    except OSError:
        return False
    return isinstance(document, Document) and silenced(document, problem)


def load_part(
    apps: Sequence[AppDirectory],
    *,
    now: datetime | None = None,
    hashes: FileHashes | None = None,
    with_digest: bool = True,
    with_apps: bool = True,
    manner: Manner = USUAL,
) -> list[Loaded]:
    """These apps of a tree, without what is judged over all of them."""
    found = []
    for app in apps:
        loaded = _load(app, now, hashes, with_digest=with_digest, manner=manner)
        if loaded.app is not None and now is not None:
            members, heirs = members_of(loaded.app, now), heirs_of(loaded.app)
            loaded = replace(loaded, members=members, heirs=heirs, app=loaded.app if with_apps else None)
        found.append(loaded)
    return found


def counts(problems: Iterable[Problem]) -> tuple[int, int]:
    """Errors and warnings."""
    listed = list(problems)
    return (
        sum(1 for problem in listed if problem.severity is Severity.ERROR),
        sum(1 for problem in listed if problem.severity is Severity.WARNING),
    )
