"""Whether a handler or an entrypoint exists, found by reading. Nothing of the app is imported or run."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from relayctl.core.problem import Problem, Severity
from relayctl.templates.document import Document, MappingNode, PathPart, ScalarNode, SequenceNode, path_text
from relayctl.templates.fixes.tokens import rewritten
from relayctl.templates.keys import closest
from relayctl.templates.pysource import Finding, Outcome, PythonModule, read_module

if TYPE_CHECKING:
    from relayctl.templates.nodesource import NodeModule

_DOTTED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)+", re.ASCII)
_NODE_DOTTED = re.compile(r"[A-Za-z0-9_$-]+(?:\.[A-Za-z0-9_$-]+)*\.[A-Za-z_$][A-Za-z0-9_$]*", re.ASCII)
_NODE_SUFFIXES = (".js", ".mjs", ".cjs")
_SHOWN_MODULES = 6
_MOST_MODULES = 200


@dataclass(slots=True, kw_only=True)
class HandlerCheck:
    """One pass over the handlers of an app in `directory`; each source file is read once.

    Without a directory the form of what is written is judged alone.
    """

    document: Document
    directory: Path | None
    problems: list[Problem] = field(default_factory=list)
    _modules: dict[Path, PythonModule] = field(default_factory=dict)
    _node_modules: dict[Path, NodeModule] = field(default_factory=dict)
    _reported: set[tuple[str, str]] = field(default_factory=set)
    _files: dict[str, Path | None] = field(default_factory=dict)
    _real: str = ""

    def run(self) -> list[Problem]:
        """Problems of all handlers and entrypoints, each cause once."""
        runtime = self.document.value.get("runtime")
        for path, node in _written(self.document, ("events", "schedules"), "handler"):
            if runtime == "exec":
                self._program(path, node)
            elif runtime == "node":
                self._node(path, node)
            elif isinstance(runtime, str) and runtime.startswith("python"):
                self._python(path, node)
        for path, node in _written(self.document, ("services",), "entrypoint"):
            self._entrypoint(path, node, is_program=runtime == "exec")
        return self.problems

    def _add(
        self,
        code: str,
        path: Sequence[PathPart],
        node: ScalarNode,
        message: str,
        *,
        help: str,  # noqa: A002
        detail: str = "",
        severity: Severity = Severity.ERROR,
        name: tuple[str, str | None] = ("", None),
    ) -> None:
        """`name` is the part of the text that is wrong, at its end, and what is meant."""
        if (code, node.text) in self._reported:
            return
        self._reported.add((code, node.text))
        fix = None
        if name[1] is not None:
            span = (len(node.text) - len(name[0]), len(node.text))
            fix = rewritten(self.document.source, node, name[1], f"write {name[1]}", is_safe=False, span=span)
        self.problems.append(
            self.document.source.problem(
                code,
                node.start,
                max(node.end, node.start + 1),
                message,
                detail=detail,
                help=help,
                fix=fix,
                severity=severity,
                path=path_text(path),
                label=self.document.label(path),
            )
        )

    def _python(self, path: Sequence[PathPart], node: ScalarNode) -> None:
        handler = node.text
        if _DOTTED.fullmatch(handler) is None:
            self._add(
                "RLY401",
                path,
                node,
                f'handler "{_short(handler)}" is not of the form module.function',
                detail="split at the last dot",
                help=_python_form(handler),
            )
            return
        if self.directory is None:
            return
        module, _, name = handler.rpartition(".")
        relative = module.replace(".", "/")
        file = self._inside(f"{relative}.py") or self._inside(f"{relative}/__init__.py")
        if file is None:
            self._module_missing(path, node, module, (".py",))
            return
        source = self._modules.get(file)
        if source is None:
            source = self._modules[file] = read_module(file)
        shown = self._shown(file)
        self._judge(path, node, name, shown, source.find(name), source)

    def _judge(
        self, path: Sequence[PathPart], node: ScalarNode, name: str, shown: str, found: Finding, source: PythonModule
    ) -> None:
        match found.outcome:
            case Outcome.FOUND:
                self._shadow(path, node, shown)
            case Outcome.BROKEN:
                message, hint = f"{shown} does not parse: {found.words}", "fix the file"
                self._add("RLY407", path, node, message, help=hint)
            case Outcome.MISSING:
                near = closest(name, source.callables())
                listed = ", ".join(source.callables()[:_SHOWN_MODULES]) or "nothing callable"
                hint = f'did you mean "{near}"?' if near is not None else f"{shown} defines {listed}"
                self._add("RLY403", path, node, f'{shown} defines no "{name}"', help=hint, name=(name, near))
            case Outcome.NOT_CALLABLE:
                self._add("RLY404", path, node, f'"{name}" in {shown} {found.words}', help=found.help)
            case Outcome.DYNAMIC:
                self._add(
                    "RLY405",
                    path,
                    node,
                    f'"{name}" in {shown} cannot be checked by reading: {found.words}',
                    help="define it there with def if it should be checked",
                    severity=Severity.INFO,
                )

    def _shadow(self, path: Sequence[PathPart], node: ScalarNode, shown: str) -> None:
        """The app's directory comes first when its code imports, so one name of its own can hide one of Python's."""
        top = node.text.partition(".")[0]
        if top in sys.stdlib_module_names:
            self._add(
                "RLY406",
                path,
                node,
                f'{shown} hides 1 module of Python itself: "{top}"',
                detail=f"import {top}  gets the app's, in its libraries as well",
                help=f"rename it, as in  {top}_jobs",
                severity=Severity.WARNING,
            )

    def _node(self, path: Sequence[PathPart], node: ScalarNode) -> None:
        handler = node.text
        if _NODE_DOTTED.fullmatch(handler) is None:
            self._add(
                "RLY401",
                path,
                node,
                f'handler "{_short(handler)}" is not of the form module.function',
                detail="split at the last dot",
                help="write it as in  jobs.cleanup.handler   for an export of jobs/cleanup.js",
            )
            return
        if self.directory is None:
            return
        module, _, name = handler.rpartition(".")
        relative = module.replace(".", "/")
        candidates = [f"{relative}{suffix}" for suffix in _NODE_SUFFIXES]
        candidates += [f"{relative}/index{suffix}" for suffix in _NODE_SUFFIXES]
        file = next((found for each in candidates if (found := self._inside(each)) is not None), None)
        if file is None:
            self._module_missing(path, node, module, _NODE_SUFFIXES)
            return
        source = self._node_modules.get(file)
        if source is None:
            from relayctl.templates.nodesource import read_node_module

            source = self._node_modules[file] = read_node_module(file)
        self._judge_node(path, node, name, self._shown(file), source)

    def _judge_node(
        self, path: Sequence[PathPart], node: ScalarNode, name: str, shown: str, source: NodeModule
    ) -> None:
        found = source.find(name)
        if found.outcome is Outcome.MISSING:
            near = closest(name, source.names())
            way = f"export {{ {name} }};" if shown.endswith(".mjs") else f"exports.{name} = …"
            hint = f'did you mean "{near}"?' if near is not None else f"export it:  {way}"
            self._add("RLY403", path, node, f'{shown} exports no "{name}"', help=hint, name=(name, near))
        elif found.outcome is Outcome.NOT_CALLABLE:
            self._add("RLY404", path, node, f'"{name}" in {shown} {found.words}', help=found.help)
        elif found.outcome is Outcome.DYNAMIC:
            self._add(
                "RLY405",
                path,
                node,
                f'"{name}" in {shown} cannot be checked by reading: {found.words}',
                help=f"write  exports.{name} = …  there if it should be checked",
                severity=Severity.INFO,
            )

    def _program(self, path: Sequence[PathPart], node: ScalarNode) -> None:
        file = self._file_of_app(path, node, "handler")
        if file is None:
            return
        if not file.stat().st_mode & (stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH):
            self._add(
                "RLY404",
                path,
                node,
                f"{_short(node.text)} is not executable",
                help=f"chmod +x {_short(node.text)}   (git keeps that bit)",
            )

    def _entrypoint(self, path: Sequence[PathPart], node: ScalarNode, *, is_program: bool) -> None:
        if is_program:
            self._program(path, node)
        else:
            self._file_of_app(path, node, "entrypoint")

    def _file_of_app(self, path: Sequence[PathPart], node: ScalarNode, what: str) -> Path | None:
        text = node.text
        if text.startswith(("/", "~")) or "\\" in text or "\0" in text or ".." in text.split("/"):
            self._add(
                "RLY401",
                path,
                node,
                f'{what} "{_short(text)}" leaves the app',
                detail="a path inside the app's directory is expected",
                help="write it relative to the app, as in  bin/backup.sh",
            )
            return None
        if self.directory is None:
            return None
        file = self._inside(text)
        if file is None:
            outside = (self.directory / text).is_symlink()
            reason = "is a link that leaves the app, or leads nowhere" if outside else "is no file of the app"
            self._add(
                "RLY402", path, node, f'{what} "{_short(text)}" {reason}', help="add the file, or correct the path"
            )
        return file

    def _inside(self, relative: str) -> Path | None:
        """The real file behind a path of the app, or None when there is none or it lies outside."""
        if relative not in self._files:
            self._files[relative] = self._look(relative)
        return self._files[relative]

    def _look(self, relative: str) -> Path | None:
        path = self._root
        try:
            for part in relative.split("/"):
                path = f"{path}/{part}"
                mode = os.lstat(path).st_mode
                if stat.S_ISLNK(mode) or part in ("", ".", ".."):
                    return self._follow(relative)
            return Path(path) if stat.S_ISREG(mode) else None
        except (OSError, ValueError):
            return None

    def _follow(self, relative: str) -> Path | None:
        real = os.path.realpath(f"{self._root}/{relative}")
        return Path(real) if real.startswith(f"{self._root}/") and os.path.isfile(real) else None  # noqa: PTH113

    @property
    def _root(self) -> str:
        if not self._real:
            assert self.directory is not None
            self._real = os.path.realpath(self.directory)
        return self._real

    def _shown(self, file: Path) -> str:
        return str(file)[len(self._root) + 1 :]

    def _module_missing(
        self, path: Sequence[PathPart], node: ScalarNode, module: str, suffixes: tuple[str, ...]
    ) -> None:
        modules = _modules_in(Path(self._root), suffixes)
        near = closest(module, modules)
        listed = ", ".join(modules[:_SHOWN_MODULES]) + (", …" if len(modules) > _SHOWN_MODULES else "")
        wanted = f"{module.replace('.', '/')}{suffixes[0]}"
        hint = f"add {_short(wanted)}"
        if near is not None:
            hint = f'did you mean "{near}"?'
        elif modules:
            hint += f"; the app has {listed}"
        self._add("RLY402", path, node, f'the app has no module "{_short(module)}"', help=hint)


def handler_problems(document: Document, directory: Path | None) -> list[Problem]:
    """What is wrong with the handlers and entrypoints that a document names; without a directory, with their form."""
    return HandlerCheck(document=document, directory=directory).run()


def _written(document: Document, keys: tuple[str, ...], name: str) -> list[tuple[tuple[PathPart, ...], ScalarNode]]:
    found: list[tuple[tuple[PathPart, ...], ScalarNode]] = []
    for key in keys:
        items = document.root.get(key)
        for at, item in enumerate(items.items if isinstance(items, SequenceNode) else []):
            node = item.get(name) if isinstance(item, MappingNode) else None
            if isinstance(node, ScalarNode) and isinstance(node.value, str) and node.value:
                found.append(((key, at, name), node))
    return found


def _python_form(handler: str) -> str:
    if handler.endswith(".py") and re.fullmatch(r"[A-Za-z_][\w/]*\.py", handler, re.ASCII):
        return f"write  {handler.removesuffix('.py').replace('/', '.')}.handler   with the function's name last"
    if re.fullmatch(r"[A-Za-z_][\w./]*[:/][A-Za-z_]\w*", handler, re.ASCII):
        return f"write  {re.sub('[:/]', '.', handler)}"
    if re.fullmatch(r"[A-Za-z_]\w*", handler, re.ASCII):
        return f"name the module too:  module.{handler}"
    return "write it as in  jobs.cleanup.handler   for the function handler in jobs/cleanup.py"


def _modules_in(directory: Path, suffixes: tuple[str, ...]) -> list[str]:
    from relayctl.templates.find import app_files

    modules: list[str] = []
    for relative in app_files(directory):
        if relative.suffix in suffixes and len(modules) < _MOST_MODULES:
            parts = relative.with_suffix("").parts
            parts = parts[:-1] if parts[-1] in ("__init__", "index") and len(parts) > 1 else parts
            modules.append(".".join(parts))
    return sorted(set(modules))


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"
