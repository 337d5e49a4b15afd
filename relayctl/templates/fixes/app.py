"""Mends the template of one app: judges its text as a lint does, and says what became of it. It writes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from relayctl.core.names import AppName
from relayctl.core.problem import Problem
from relayctl.templates.document import Document
from relayctl.templates.find import digest_of
from relayctl.templates.fixes.ignoring import with_ignores
from relayctl.templates.fixes.rounds import Judged, Mended, mended
from relayctl.templates.load import Loaded, check_read
from relayctl.templates.read import read
from relayctl.templates.rules.engine import USUAL, Manner
from relayctl.templates.rules.herd import members_of

Wants = Callable[[Problem], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What it takes to judge a template's text. `file` is the name shown; without a directory handlers are not
    looked for."""

    file: str
    name: AppName
    directory: Path | None
    now: datetime
    manner: Manner = USUAL

    def judge(self, data: bytes) -> Judged:
        """What is wrong with a text."""
        return self._judged(read(data, self.file))

    def _judged(self, document: Document | list[Problem]) -> Judged:
        if not isinstance(document, Document):
            return Judged(problems=document, is_readable=False)
        app, problems, schedules = check_read(document, self.name, self.directory, self.now, manner=self.manner)
        return Judged(problems=problems, is_readable=True, app=app, schedules=schedules)

    def mend(self, data: bytes, wants: Wants, known: Loaded | None = None) -> Mended:
        """The text with the fixes of the problems that `wants` takes. `known` is what a look at the app found."""
        state = None
        if known is not None and known.template_digest == digest_of(data):
            state = Judged(problems=known.problems, is_readable=known.is_readable)
        return mended(data, self.judge, wants, state)

    def loaded(self, home: Path, done: Mended) -> Loaded | None:
        """What a look at the app in `home` finds where the mended text is in its place; None where it must look."""
        state = done.state
        if state is None or not state.is_readable or not done.fixed:
            return None
        members = members_of(state.app, self.now) if state.app is not None else ()
        return Loaded(
            name=self.name,
            directory=home,
            app=None,
            problems=tuple(state.problems),
            schedules=state.schedules,
            members=members,
        )

    def silence(self, data: bytes, wants: Wants) -> Mended:
        """The text with a comment for each problem that `wants` takes and a comment may silence."""

        def judge(text: bytes) -> Judged:
            document = read(text, self.file)
            found = self._judged(document)
            if not isinstance(document, Document):
                return found
            return Judged(problems=with_ignores(document, found.problems, wants), is_readable=True)

        return mended(data, judge, wants)


def bench_of(directory: Path | None, file: str, now: datetime, manner: Manner) -> Bench:
    """The bench of an app in its place, or of a text that stands in none."""
    real = Path(os.path.realpath(directory)) if directory is not None else None
    home = directory if directory is not None else Path(file).parent
    return Bench(file=file, name=AppName(home.name or "stdin"), directory=real, now=now, manner=manner)
