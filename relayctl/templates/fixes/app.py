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
from relayctl.templates.fixes.ignoring import with_ignores
from relayctl.templates.fixes.rounds import Judged, Mended, mended
from relayctl.templates.load import check_text
from relayctl.templates.read import read
from relayctl.templates.rules.engine import USUAL, Manner

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
        document = read(data, self.file)
        _, problems, _ = check_text(data, self.file, self.name, self.directory, self.now, manner=self.manner)
        return Judged(problems=problems, is_readable=isinstance(document, Document))

    def mend(self, data: bytes, wants: Wants) -> Mended:
        """The text with the fixes of the problems that `wants` takes."""
        return mended(data, self.judge, wants)

    def silence(self, data: bytes, wants: Wants) -> Mended:
        """The text with a comment for each problem that `wants` takes and a comment may silence."""

        def judge(text: bytes) -> Judged:
            found = self.judge(text)
            document = read(text, self.file)
            if not isinstance(document, Document):
                return found
            return Judged(problems=with_ignores(document, found.problems, wants), is_readable=True)

        return mended(data, judge, wants)


def bench_of(directory: Path | None, file: str, now: datetime, manner: Manner) -> Bench:
    """The bench of an app in its place, or of a text that stands in none."""
    real = Path(os.path.realpath(directory)) if directory is not None else None
    home = directory if directory is not None else Path(file).parent
    return Bench(file=file, name=AppName(home.name or "stdin"), directory=real, now=now, manner=manner)
