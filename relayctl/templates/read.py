"""Bytes of one template file to a tree of nodes, or problems. The door to ruamel.yaml, whose errors stop here.

Events come from the C parser where it is installed, else from the pure one; the tree is composed here, so that depth,
aliases and duplicate keys are bounded before anything is expanded. It does not know any key of a template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from relayctl.core.problem import Place, Problem, Severity
from relayctl.templates.document import Document, MappingNode, Node, ScalarNode, SequenceNode, Source
from relayctl.templates.scalars import NotFinite, resolve
from relayctl.templates.stumbles import Token, with_further
from relayctl.templates.syntax import SyntaxTrouble, diagnose, is_unquoted_star, star_problem
from relayctl.templates.textmask import without_secrets

MAX_BYTES = 1 << 20
MAX_DEPTH = 60
MAX_EXPANDED = 20_000
"""Nodes of a file after every alias is written out, where it has aliases at all."""

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_DIRECTIVE = re.compile(r"\A(?:[ \t]*(?:#[^\r\n]*)?(?:\r\n|\n|\r))*(%[^\r\n]*)")

Events = Iterator[Any]
EventSource = Callable[[str], Events]


def read(text: bytes, file: str, *, events: EventSource | None = None) -> Document | list[Problem]:
    """The document in `text`, or what is wrong with it. `file` is the name shown in problems."""
    source, found = _read(text, file, events)
    if isinstance(found, Document):
        return found
    return found if source is None else without_secrets(source, found)


def _read(text: bytes, file: str, events: EventSource | None) -> tuple[Source | None, Document | list[Problem]]:
    decoded = _decode(text, file)
    if not isinstance(decoded, str):
        return None, [decoded]
    source = Source(file=file, text=decoded)
    found = _forbidden_character(source) or _directive(source)
    if found is not None:
        return source, [found]
    composer = _Composer(source)
    try:
        root = composer.document((events or fastest_events)(decoded))
    except SyntaxTrouble as trouble:
        if events is pure_events:
            return source, with_further(source, diagnose(source, trouble, _how_well), _tokens)
        # The C parser refuses some YAML 1.2 that the pure one reads, such as a URL in a flow mapping.
        return _read(text, file, pure_events)
    except _Stop as stop:
        return source, [*composer.problems, *with_further(source, stop.problem, _tokens)]
    if composer.problems:
        return source, composer.problems
    if not isinstance(root, MappingNode):
        return source, [_not_a_mapping(source, root)]
    return source, Document(source=source, root=root, has_anchors=composer.has_anchors)


def _how_well(text: str) -> int:
    """0 for a text that is not YAML, 1 for one that is, 2 for one with the shape of a template."""
    from relayctl.templates.shape import is_valid

    composer = _Composer(Source(file="", text=text))
    try:
        root = composer.document(fastest_events(text))
    except (SyntaxTrouble, _Stop):
        return 0
    return 2 if isinstance(root, MappingNode) and is_valid(root.value) else 1


def _tokens(text: str) -> set[Token]:
    """Where tokens of a text begin, as far as the better of the two parsers reads it."""
    from ruamel.yaml.error import YAMLError

    found: list[set[Token]] = []
    for events in (fastest_events, pure_events):
        found.append(set())
        try:
            for event in events(text):
                found[-1].add((event.start_mark.line + 1, event.start_mark.column + 1))
        except (SyntaxTrouble, YAMLError):
            continue
        return found[-1]
    return max(found, key=len)


def unreadable(file: str, message: str, help: str = "") -> Problem:  # noqa: A002
    """The problem of a file that cannot be read at all."""
    return Problem(code="RLY001", severity=Severity.ERROR, place=Place(file=file), message=message, help=help)


def _decode(text: bytes, file: str) -> str | Problem:
    if len(text) > MAX_BYTES:
        return unreadable(
            file,
            f"the file is larger than {MAX_BYTES:,} bytes, the most that a template has",
            "split the app, or move data out of its template",
        )
    for mark in (b"\xff\xfe", b"\xfe\xff"):
        if text.startswith(mark):
            return unreadable(file, "the file is UTF-16; a template is UTF-8", "save it as UTF-8")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = text[: error.start].decode("utf-8", "replace")
        source = Source(file=file, text=before)
        line, column = source.position(len(before))
        problem = unreadable(file, f"byte {text[error.start]:#04x} is not UTF-8", "save the file as UTF-8")
        place = Place(file=file, line=line, column=column)
        return Problem(
            code=problem.code, severity=problem.severity, place=place, message=problem.message, help=problem.help
        )


def _forbidden_character(source: Source) -> Problem | None:
    found = _FORBIDDEN.search(source.text)
    if found is None:
        return None
    at = found.start()
    return source.problem(
        "RLY001",
        at,
        at + 1,
        f"the character U+{ord(found.group()):04X} is not allowed in YAML",
        help='remove it, or write it as an escape in double quotes, such as "\\u0007"',
    )


def _directive(source: Source) -> Problem | None:
    found = _DIRECTIVE.match(source.text) if "%" in source.text else None
    if found is None:
        return None
    start, end = found.span(1)
    line_end = re.compile(r"\r\n|\n|\r|\Z").search(source.text, end)
    fix_end = line_end.end() if line_end is not None else end
    return source.problem(
        "RLY011",
        start,
        end,
        f"directive {found.group(1).split()[0]} is not allowed in a template",
        detail="it changes how the whole file is read",
        help="remove the line; templates are always YAML 1.2",
        fix=source.replace(start, fix_end, "", "remove the directive", is_safe=True),
    )


def _not_a_mapping(source: Source, root: Node | None) -> Problem:
    if root is None or (isinstance(root, ScalarNode) and root.value is None):
        return Problem(
            code="RLY015",
            severity=Severity.ERROR,
            place=Place(file=source.file),
            message="the template is empty",
            help="declare at least one event rule or service; `relayctl init` writes an example",
        )
    kind = "a list" if isinstance(root, SequenceNode) else "a single value"
    return source.problem(
        "RLY103",
        root.start,
        root.end,
        f"a template is a mapping of keys, and this file holds {kind}",
        help="start with a key such as `runtime: python`",
    )


def fastest_events(text: str) -> Events:
    """Events of the C parser, or of the pure one where the C parser is not installed."""
    try:
        from _ruamel_yaml import CParser
    except ImportError:
        return pure_events(text)
    events: Events = iter(CParser(text).get_event, None)
    return events


def pure_events(text: str) -> Events:
    """Events of the parser written in Python, which answers the same more slowly."""
    from ruamel.yaml import YAML

    try:
        yield from YAML(typ="safe", pure=True).parse(text)
    except (RecursionError, IndexError, ValueError, AssertionError, AttributeError, TypeError):
        # The pure scanner trips over a few inputs that the C one refuses properly.
        raise SyntaxTrouble(len(text), None, "") from None


def _trouble(error: Exception, text: str) -> SyntaxTrouble:
    """A parser's error as offsets and hints."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    context = getattr(error, "context_mark", None)
    words = f"{getattr(error, 'context', None) or ''} {getattr(error, 'problem', None) or ''}"
    if mark is None:
        return SyntaxTrouble(getattr(error, "position", None) or len(text), None, words)
    return SyntaxTrouble(mark.index, None if context is None else context.index, words)


def _settle(node: Node, behind: int) -> None:
    """Place a value that is not written: the parsers differ about it, and agree on what stands before it."""
    if node.start == node.end and isinstance(node, ScalarNode):
        node.start = node.end = behind


class _Stop(Exception):
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.message)


class _Composer:
    """Events to nodes. Problems that leave the tree usable are collected, the others stop it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self.has_anchors = False
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._open: set[str] = set()
        self._count = 0

    def document(self, events: Events) -> Node | None:
        from ruamel.yaml import events as kinds
        from ruamel.yaml.error import YAMLError

        self._kinds = kinds
        try:
            return self._document(events)
        except YAMLError as error:
            raise _trouble(error, self.source.text) from None

    def _document(self, events: Events) -> Node | None:
        kinds = self._kinds
        root: Node | None = None
        documents = 0
        for event in events:
            kind = type(event)
            if kind is kinds.DocumentStartEvent:
                documents += 1
                if documents > 1:
                    raise self._stop(
                        "RLY007",
                        event.start_mark.index,
                        event.start_mark.index + 3,
                        "a second document begins here; a template is one document",
                        help="remove the `---`, or give each app its own directory",
                    )
            elif kind not in (kinds.StreamStartEvent, kinds.StreamEndEvent, kinds.DocumentEndEvent):
                root = self._node(event, events, 0)
        return root

    def _node(self, event: Any, events: Events, depth: int) -> Node:
        kinds = self._kinds
        kind = type(event)
        if kind is kinds.AliasEvent:
            return self._alias(event)
        before = self._count
        self._count += 1
        if kind is kinds.ScalarEvent and event.anchor is None and event.tag is None:
            return self._scalar(event)
        if event.tag is not None:
            self._refuse_tag(event)
        anchor: str | None = event.anchor
        if anchor is not None:
            self.has_anchors = True
            self._open.add(anchor)
        node: Node
        if kind is kinds.ScalarEvent:
            node = self._scalar(event)
        elif depth >= MAX_DEPTH:
            start = event.start_mark.index
            raise self._stop(
                "RLY002", start, start + 1, f"nested more than {MAX_DEPTH} levels deep", help="flatten the value"
            )
        elif kind is kinds.SequenceStartEvent:
            node = self._sequence(event, events, depth)
        else:
            node = self._mapping(event, events, depth)
        if anchor is not None:
            self._open.discard(anchor)
            self._anchors[anchor] = (node, self._count - before)
        return node

    def _scalar(self, event: Any) -> ScalarNode:
        text: str = event.value
        style: str = event.style or ""
        start, end = event.start_mark.index, event.end_mark.index
        if style:
            if style == '"' and _SURROGATE.search(text):
                self._add(
                    "RLY002", start, end, "half a surrogate pair is no character", help="write the whole character"
                )
                text = ""
            return ScalarNode(start, end, text, style, text)
        try:
            return ScalarNode(start, end, text, style, resolve(text))
        except NotFinite:
            self._add(
                "RLY104",
                start,
                end,
                "this number cannot be carried by JSON",
                detail="infinite, not a number, or too long",
                help="quote it if it is text",
            )
            return ScalarNode(start, end, text, style, text)

    def _sequence(self, event: Any, events: Events, depth: int) -> SequenceNode:
        items: list[Node] = []
        for inner in events:
            if type(inner) is self._kinds.SequenceEndEvent:
                end = inner.end_mark.index
                return SequenceNode(event.start_mark.index, end, items, [item.value for item in items])
            item = self._node(inner, events, depth + 1)
            _settle(item, items[-1].end if items else event.start_mark.index)
            items.append(item)
        raise SyntaxTrouble(len(self.source.text), None, "")

    def _mapping(self, event: Any, events: Events, depth: int) -> MappingNode:
        node = MappingNode(event.start_mark.index, 0, {}, {})
        merges: list[tuple[ScalarNode, Node]] = []
        own: dict[str, ScalarNode] = {}
        for inner in events:
            if type(inner) is self._kinds.MappingEndEvent:
                node.end = inner.end_mark.index
                break
            key = self._node(inner, events, depth + 1)
            value = self._node(next(events), events, depth + 1)
            _settle(value, key.end)
            if not isinstance(key, ScalarNode) or (key.is_plain and key.value is None):
                self._add("RLY103", key.start, key.end, "a key must be text", help="name the key")
            elif key.is_plain and key.text == "<<":
                merges.append((key, value))
            elif key.text in own:
                self._duplicate(own[key.text], key)
            else:
                own[key.text] = key
                node.entries[key.text] = (key, value)
        if merges:
            self._merge(node, merges)
        node.value = {name: value.value for name, (_, value) in node.entries.items()}
        return node

    def _merge(self, node: MappingNode, merges: list[tuple[ScalarNode, Node]]) -> None:
        if len(merges) > 1:
            first, second = merges[0][0], merges[1][0]
            texts = ", ".join(self.source.text[value.start : value.end] for _, value in merges if value.end < 1 << 30)
            line = self.source.position(first.start)[0]
            shown = self._aliases_on_lines_of([key for key, _ in merges]) or texts
            self._add(
                "RLY006",
                second.start,
                second.end,
                f"a second merge key in one mapping; the first is on line {line}",
                help=f"merge a list instead:  <<: [{shown}]",
            )
            return
        key, value = merges[0]
        sources = value.items if isinstance(value, SequenceNode) else [value]
        for merged in sources:
            if not isinstance(merged, MappingNode):
                self._add(
                    "RLY103",
                    key.start,
                    key.end,
                    "a merge key takes a mapping, or a list of mappings",
                    help="refer to a mapping, as in  x-shared: &shared {timeout: 20s}  and  <<: *shared",
                )
                return
            for name, entry in merged.entries.items():
                node.entries.setdefault(name, entry)

    def _aliases_on_lines_of(self, keys: list[ScalarNode]) -> str:
        names: list[str] = []
        for key in keys:
            line = self.source.line_text(self.source.lines_before(key.start))
            names.extend(re.findall(r"<<\s*:\s*(\*[^\s,}\]]+)", line))
        return ", ".join(dict.fromkeys(names))

    def _alias(self, event: Any) -> Node:
        name: str = event.anchor
        start, end = event.start_mark.index, event.end_mark.index
        if name in self._open:
            raise self._stop(
                "RLY013", start, end, "this alias stands inside the value it refers to", help="write the value out"
            )
        if name not in self._anchors:
            if is_unquoted_star(self.source, start):
                raise _Stop(star_problem(self.source, start, name))
            raise self._stop(
                "RLY002",
                start,
                end,
                "this alias refers to no anchor before it",
                help="define the anchor above it with &, or quote the value",
            )
        node, size = self._anchors[name]
        self._count += size
        if self._count > MAX_EXPANDED:
            raise self._stop(
                "RLY013",
                start,
                end,
                f"with its aliases written out the file has more than {MAX_EXPANDED:,} values",
                help="write the repeated parts out, or drop them",
            )
        return node

    def _duplicate(self, first: ScalarNode, second: ScalarNode) -> None:
        line = self.source.position(first.start)[0]
        again = self.source.position(second.start)[0]
        self._add(
            "RLY006",
            second.start,
            second.end,
            f'key "{second.text[:80]}" is here again; it stands on line {line} already',
            detail=f"given on line {line} and on line {again}",
            help="keep one of them",
            notes=("many YAML readers silently use the last one, some the first",),
        )

    def _refuse_tag(self, event: Any) -> None:
        start = event.start_mark.index
        tag = self.source.text.find("!", start)
        begin = start if tag < 0 else tag
        found = re.compile(r"\S+").match(self.source.text, begin)
        end = begin + 1 if found is None else found.end()
        self._add(
            "RLY012",
            begin,
            end,
            "tags are not allowed in a template",
            detail="never executed, never guessed",
            help="remove the tag; quote the value if it is text",
        )

    def _add(self, code: str, start: int, end: int, message: str, **more: Any) -> None:
        self.problems.append(self.source.problem(code, start, end, message, **more))

    def _stop(self, code: str, start: int, end: int, message: str, **more: Any) -> _Stop:
        return _Stop(self.source.problem(code, start, end, message, **more))
