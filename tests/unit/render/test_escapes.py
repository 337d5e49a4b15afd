"""What others wrote can neither steer a terminal nor break a line, and what can be read stays as it is."""

from __future__ import annotations

import pytest

from relayctl.render.escapes import harmless_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, Grüße, 日本", "plain, Grüße, 日本"),
        ("a\x1b[2Jb\nc\x7f", "a\\x1b[2Jb\\x0ac\\x7f"),
        ("left\u2028right\x85", "left\\u2028right\\x85"),
        ("\u202eturned", "\\u202eturned"),
        ("\ud800", "\\ud800"),
    ],
)
def test_a_line_is_harmless(text: str, shown: str) -> None:
    assert harmless_line(text) == shown
    assert harmless_line(text).isprintable()
