"""The last good template of each app of one root, kept in the state directory for a start beside a broken tree.

Texts only: the code is the app's live directory. What is damaged, or written by a newer relayctl, is left as it is.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from relayctl.core.facts import Emit, LastGoodUnusable
from relayctl.core.model import App
from relayctl.core.names import AppName, is_name
from relayctl.errors import os_reason
from relayctl.host.wholefile import sweep_unfinished, write_whole
from relayctl.templates.find import TEMPLATE, app_digest, digest_of
from relayctl.templates.load import check_text
from relayctl.templates.read import MAX_BYTES

FORMAT_VERSION = 1
_MOST_ROOTS = 16
"""Of more roots than these, those that have not changed for longest are forgotten."""
_SYNCED_AT_ONCE = 8
"""More files than these are left to the system to write out: a torn one is found by its digest, and made again."""
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An app as it was when it last loaded, on the directory that it has now.

    `revision` is what the directory's digest would be with that template in it.
    """

    app: App
    revision: str
    template_digest: str
    directory: Path


class LastGood:
    """One root's templates. Used by one thread; workers on one state directory may share the files.

    It raises nothing: what cannot be read or written is told, once for each reason.
    """

    def __init__(self, folder: Path, root: Path, emit: Emit) -> None:
        """`folder` holds the roots' own folders. Roots are told apart by their path, not by where links lead."""
        self._root = Path(os.path.abspath(root))  # noqa: PTH100  links stay
        self._all = folder
        self._folder = folder / digest_of(os.fsencode(self._root))[:16]
        self._emit = emit
        self._owed: dict[str, bytes] = {}
        self._told: dict[str, str] = {}
        self._is_ready = False

    def names(self) -> frozenset[str]:
        """The apps of which something is kept."""
        try:
            found = [entry.name.removesuffix(_SUFFIX) for entry in self._folder.iterdir() if entry.suffix == _SUFFIX]
        except FileNotFoundError:
            return frozenset()
        except OSError as error:
            self._tell("", f"{self._folder} cannot be read ({os_reason(error)})")
            return frozenset()
        return frozenset(name for name in found if is_name(name))

    def load(self, name: str) -> Stored | None:
        """The app as it is kept, or None where it is not, or cannot be used."""
        text = self._text(name) if is_name(name) else None
        directory = Path(os.path.realpath(self._root / name))
        # A link that leaves the root was refused, and is no way to run what is there.
        if text is None or not directory.is_relative_to(os.path.realpath(self._root)):
            return None
        file = (self._root / name / TEMPLATE).as_posix()
        app, problems, _ = check_text(text, file, AppName(name), None, None)
        if app is None:
            first = next(problem for problem in problems if problem.is_error)
            self._tell(name, f"this version of relayctl refuses it ({first.code} {first.message})")
            return None
        revision = app_digest(directory, template=text)
        return Stored(app=app, revision=revision, template_digest=digest_of(text), directory=directory)

    def keep(self, texts: Mapping[str, bytes]) -> None:
        """These are in force. What cannot be written now is tried again by the next call."""
        self._owed |= texts
        if not self._owed:
            return
        is_synced = len(self._owed) <= _SYNCED_AT_ONCE
        for name, text in list(self._owed.items()):
            try:
                self._write(name, text, is_synced=is_synced)
            except OSError as error:
                self._tell("", f"{self._folder} cannot be written ({os_reason(error)}); it is tried again")
                return
            del self._owed[name]
            self._told.pop(name, None)
        # What fails next is news.
        self._told.pop("", None)

    def forget(self, names: Iterable[str]) -> None:
        """These apps are gone, and their removal is in force."""
        for name in names:
            self._owed.pop(name, None)
            try:
                if not _is_newer(self._read(name)):
                    self._file(name).unlink(missing_ok=True)
            except OSError as error:
                self._tell(name, f"{self._file(name)} cannot be deleted ({os_reason(error)})")

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}{_SUFFIX}"

    def _read(self, name: str) -> bytes | None:
        try:
            with self._file(name).open("rb") as opened:
                # JSON spells a character in six bytes at most.
                return opened.read(6 * MAX_BYTES + 4096)
        except FileNotFoundError:
            return None

    def _text(self, name: str) -> bytes | None:
        if name in self._owed:
            return self._owed[name]
        try:
            data = self._read(name)
        except OSError as error:
            self._tell(name, f"{self._file(name)} cannot be read ({os_reason(error)})")
            return None
        if data is None:
            return None
        if _is_newer(data):
            self._tell(name, f"a newer relayctl wrote {self._file(name)}")
            return None
        text = _text_in(data, name)
        if text is None:
            self._tell(name, f"{self._file(name)} is damaged, and left until {name} is good again")
        return text

    def _write(self, name: str, text: bytes, *, is_synced: bool) -> None:
        if not self._is_ready:
            self._make_ready()
        data, old = _document(name, text), self._read(name)
        if old == data:
            return
        if _is_newer(old):
            self._tell(name, f"a newer relayctl wrote {self._file(name)}")
            return
        write_whole(self._file(name), data, is_synced=is_synced)

    def _make_ready(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        sweep_unfinished(self._folder)
        # Now it is the one that was in use last.
        os.utime(self._folder)
        others = sorted(self._all.iterdir(), key=lambda folder: folder.stat().st_mtime, reverse=True)[_MOST_ROOTS:]
        for folder in others:
            if folder != self._folder:
                shutil.rmtree(folder, ignore_errors=True)
        self._is_ready = True

    def _tell(self, app: str, reason: str) -> None:
        if self._told.get(app) != reason:
            self._told[app] = reason
            self._emit(LastGoodUnusable(app=app, reason=reason))


def _document(name: str, text: bytes) -> bytes:
    document = {"v": FORMAT_VERSION, "app": name, "digest": digest_of(text), "template": text.decode()}
    return json.dumps(document, ensure_ascii=False).encode()


def _text_in(data: bytes, name: str) -> bytes | None:
    document = _parsed(data) or {}
    template = document.get("template")
    if document.get("v") != FORMAT_VERSION or document.get("app") != name or not isinstance(template, str):
        return None
    text = template.encode(errors="replace")
    return text if digest_of(text) == document.get("digest") else None


def _is_newer(data: bytes | None) -> bool:
    version = (_parsed(data) or {}).get("v")
    return isinstance(version, int) and version > FORMAT_VERSION


def _parsed(data: bytes | None) -> dict[str, object] | None:
    if data is None:
        return None
    with suppress(ValueError, RecursionError):
        document = json.loads(data)
        if isinstance(document, dict):
            return document
    return None
