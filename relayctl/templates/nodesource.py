"""What a node module exports, read from its text. It is never loaded, and nothing in it runs.

No parser of the language: comments and strings are blanked out, and the usual ways to export are recognised. What is
exported in another way is taken at its word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from relayctl.templates.pysource import Finding, Outcome

_MAX_BYTES = 4 << 20
_NAME = r"[A-Za-z_$][\w$]*"
_SKIPPED = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`"""
    r"""|(?<=[=(,:;!&|?{}\[\n])[ \t]*/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*""",
    re.DOTALL,
)
_MEMBER = re.compile(rf"\bexports\s*\.\s*({_NAME})\s*=(?!=)\s*")
_DECLARED = re.compile(
    rf"\bexport\s+(?:default\s+)?(?:(async\s+)?(function)\b\s*(\*?)\s*|(class)\s+|(?:const|let|var)\s+)({_NAME})(?:\s*=\s*)?"
)
_LISTED = re.compile(r"\bexport\s*\{([^}]*)\}")
_WHOLE = re.compile(r"\bmodule\s*\.\s*exports\s*=(?!=)\s*")
_DEFAULT = re.compile(r"\bexport\s+default\b\s*")
_OPAQUE = re.compile(r"\bexport\s*\*(?!\s*as\b)|\bexports\s*\[|\b(?:Object\s*\.\s*\w+|__\w+)\s*\([^;\n]*?\bexports\b")
_STAR_AS = re.compile(rf"\bexport\s*\*\s*as\s+({_NAME})")
_LITERAL = re.compile(r"(?:-?\d|\"|'|`|\[|true\b|false\b|null\b|undefined\b|async\s+function\s*\*|function\s*\*)")
_KEY = re.compile(rf"\s*(?:async\s+)?(\*?)\s*({_NAME})\s*(:|\(|$)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeModule:
    """What is exported by name, with the beginning of its value where that stands there; `is_open` when more may be."""

    exports: dict[str, str]
    is_open: bool = False

    def names(self) -> list[str]:
        """What could be a handler."""
        return sorted(name for name in self.exports if not _is_no_function(self.exports[name]))

    def find(self, name: str) -> Finding:
        """Whether `name` can be called as a handler."""
        if name not in self.exports:
            if self.is_open:
                words = "the module's exports are not all written out in it"
                return Finding(outcome=Outcome.DYNAMIC, words=words)
            return Finding(outcome=Outcome.MISSING)
        value = self.exports[name]
        if re.match(r"(?:async\s+)?function\s*\*", value):
            way_out = "write it without the *, or loop over it in another function"
            return Finding(outcome=Outcome.NOT_CALLABLE, words="is a generator function", help=way_out)
        if _is_no_function(value):
            return Finding(outcome=Outcome.NOT_CALLABLE, words="is no function", help="export a function of the event")
        return Finding(outcome=Outcome.FOUND)


def read_node_module(file: Path) -> NodeModule:
    """The exports of a file; one that cannot be read may export anything."""
    try:
        if file.stat().st_size > _MAX_BYTES:
            return NodeModule(exports={}, is_open=True)
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return NodeModule(exports={}, is_open=True)
    return exports_of(text, suffix=file.suffix)


def exports_of(text: str, *, suffix: str = ".js") -> NodeModule:
    """The exports of a module's text: of an ES module in `.mjs`, of a CommonJS one in `.cjs`, of either in `.js`."""
    bare = _SKIPPED.sub(_blanked, text)
    found: dict[str, str] = {}
    is_open = _OPAQUE.search(bare) is not None
    if suffix != ".mjs":
        found |= {match[1]: bare[match.end() : match.end() + 40] for match in _MEMBER.finditer(bare)}
        for match in _WHOLE.finditer(bare):
            keys, rest_is_open = _of_whole(bare, match.end())
            found |= keys
            is_open = is_open or rest_is_open
    if suffix != ".cjs":
        found |= dict(_of_es_module(bare))
    return NodeModule(exports=found, is_open=is_open)


def _of_es_module(bare: str) -> Iterator[tuple[str, str]]:
    for match in _DECLARED.finditer(bare):
        is_async, function, star, kind, name = match.groups()
        value = bare[match.end() : match.end() + 40]
        if function or kind:
            value = f"{is_async or ''}{function or 'class'}{star}" if function else "class"
        yield name, value
    for match in _LISTED.finditer(bare):
        for item in match[1].split(","):
            words = item.split()
            if words:
                yield words[-1], ""
    for match in _STAR_AS.finditer(bare):
        yield match[1], "[a module]"
    for match in _DEFAULT.finditer(bare):
        yield "default", bare[match.end() : match.end() + 40]


def _of_whole(bare: str, at: int) -> tuple[dict[str, str], bool]:
    """What `module.exports = …` at this place exports, and whether it may be more."""
    if not bare.startswith("{", at):
        # The whole is the function that `default` names, or something that has what is asked for.
        return {"default": bare[at : at + 40]}, True
    found: dict[str, str] = {"default": ""}
    is_open = False
    for entry in _entries(bare, at):
        match = _KEY.match(entry)
        if match is None:
            is_open = is_open or bool(entry.strip())
            continue
        star, name, mark = match.groups()
        found[name] = f"function{star}" if mark == "(" else entry[match.end() :] if mark == ":" else ""
    return found, is_open


def _entries(bare: str, at: int) -> Iterator[str]:
    """The parts of an object literal that begins at this place, by its commas."""
    depth, start = 0, at + 1
    for place in range(at, len(bare)):
        sign = bare[place]
        if sign in "{[(":
            depth += 1
        elif sign in "}])":
            depth -= 1
            if depth == 0:
                yield bare[start:place]
                return
        elif sign == "," and depth == 1:
            yield bare[start:place]
            start = place + 1


def _is_no_function(value: str) -> bool:
    return _LITERAL.match(value) is not None


def _blanked(found: re.Match[str]) -> str:
    text = found[0]
    # A string keeps its quotes, so that it is still seen as one where a value stands.
    inside = " " * (len(text) - 2)
    return f"{text[0]}{inside}{text[-1]}" if text[0] in "\"'`" and len(text) > 1 else " " * len(text)
