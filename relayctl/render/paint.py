"""Colour for reports of problems, put on afterwards: the text is the same without it, and colour alone says nothing."""

from __future__ import annotations

import re

_HEAD = re.compile(r"^(\S.*?:\d+:\d+: )(error|warning|info)( RLY\d{3})", re.MULTILINE)
_CARET = re.compile(r"^( *\| +)(\^+)(.*)$", re.MULTILINE)
_COLOR = {"error": "31", "warning": "33", "info": "36"}


def painted(text: str, *, is_colored: bool) -> str:
    """A report with coloured severities and carets, or as it was."""
    if not is_colored:
        return text
    text = _HEAD.sub(lambda found: f"{found[1]}\x1b[1;{_COLOR[found[2]]}m{found[2]}\x1b[0m{found[3]}", text)
    return _CARET.sub(lambda found: f"{found[1]}\x1b[1m{found[2]}\x1b[0m{found[3]}", text)
