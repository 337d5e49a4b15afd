"""Text of others that may be shown: what could steer a terminal or break a line stands there as an escape."""

from __future__ import annotations


def harmless_line(text: str) -> str:
    """The text on one line, with each character that cannot be printed as an escape."""
    return text if text.isprintable() else "".join(char if char.isprintable() else escape(char) for char in text)


def escape(char: str) -> str:
    """A character in ASCII, as Python writes it in a string."""
    return f"\\x{ord(char):02x}" if char.isascii() else char.encode("ascii", "backslashreplace").decode()
