"""What a Python module defines at its top level, read with `ast`. It is never imported, and nothing in it runs."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from relayctl.errors import os_reason

_MAX_BYTES = 4 << 20


class Outcome(Enum):
    """What reading says about a name."""

    FOUND = "found"
    MISSING = "missing"
    NOT_CALLABLE = "not callable"
    DYNAMIC = "dynamic"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An outcome with words for the reader."""

    outcome: Outcome
    words: str = ""
    help: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonModule:
    """Names of a module to the statement that binds them last; `trouble` when the file cannot be parsed."""

    names: dict[str, ast.AST] = field(default_factory=dict)
    has_star_import: bool = False
    trouble: str = ""

    def callables(self) -> list[str]:
        """Names of functions and callable classes, public ones first."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        found = [name for name, node in self.names.items() if isinstance(node, kinds)]
        return sorted(found, key=lambda name: (name.startswith("_"), name))

    def find(self, name: str) -> Finding:
        """Whether `name` can be called as a handler."""
        if self.trouble:
            return Finding(outcome=Outcome.BROKEN, words=self.trouble)
        node = self.names.get(name)
        if node is None:
            if self.has_star_import or "__getattr__" in self.names:
                return Finding(outcome=Outcome.DYNAMIC, words="it may come from a star import")
            return Finding(outcome=Outcome.MISSING)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return _function(node)
        if isinstance(node, ast.ClassDef):
            return _class(node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            return Finding(outcome=Outcome.DYNAMIC, words="it is imported from elsewhere")
        return _assigned(node)


def read_module(file: Path) -> PythonModule:
    """Parse a file. A broken one is an answer, not an exception."""
    try:
        if file.stat().st_size > _MAX_BYTES:
            return PythonModule(trouble="it is larger than 4 MiB")
        data = file.read_bytes()
    except OSError as error:
        return PythonModule(trouble=f"it cannot be read ({os_reason(error)})")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
    except SyntaxError as error:
        where = f" on line {error.lineno}" if error.lineno else ""
        return PythonModule(trouble=f"{error.msg}{where}")
    except (ValueError, RecursionError, MemoryError, UnicodeDecodeError):
        return PythonModule(trouble="it is not Python source")
    names: dict[str, ast.AST] = {}
    star = False
    for statement in _top_level(tree.body):
        for name, node in _bound(statement):
            star = star or name == "*"
            names[name] = node
    names.pop("*", None)
    return PythonModule(names=names, has_star_import=star)


def _top_level(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run on import, those under if, try, with and loops included."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from _top_level(getattr(statement, name, ()))
        for handler in getattr(statement, "handlers", ()):
            yield from _top_level(handler.body)
        for case in getattr(statement, "cases", ()):
            yield from _top_level(case.body)


def _bound(statement: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name, statement
    elif isinstance(statement, ast.Import):
        for alias in statement.names:
            yield (alias.asname or alias.name.partition(".")[0]), statement
    elif isinstance(statement, ast.ImportFrom):
        for alias in statement.names:
            yield (alias.asname or alias.name), statement
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            for inner in ast.walk(target):
                if isinstance(inner, ast.Name):
                    # A name unpacked from a tuple says nothing about its own value.
                    yield inner.id, statement.value if isinstance(target, ast.Name) else target
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
        yield statement.target.id, statement.value


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, *, bound: bool = False) -> Finding:
    if node.decorator_list and not bound:
        return Finding(outcome=Outcome.FOUND)
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    required = len(positional) - len(arguments.defaults) - (1 if bound else 0)
    keyword_only = sum(1 for default in arguments.kw_defaults if default is None)
    if required > 1 or keyword_only:
        count = max(required, 0) + keyword_only
        return Finding(
            outcome=Outcome.NOT_CALLABLE,
            words=f"needs {count} argument{'s' if count > 1 else ''}; a handler takes the event, or nothing",
            help="take one argument, the event, and give the others defaults",
        )
    return Finding(outcome=Outcome.FOUND)


def _class(node: ast.ClassDef) -> Finding:
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and statement.name == "__call__":
            return _function(statement, bound=True)
    if node.bases or node.decorator_list:
        return Finding(outcome=Outcome.DYNAMIC, words="the class may inherit __call__")
    return Finding(
        outcome=Outcome.NOT_CALLABLE, words="is a class without __call__", help="name a function, or define __call__"
    )


def _assigned(value: ast.AST) -> Finding:
    literals = (ast.Constant, ast.List, ast.Dict, ast.Set, ast.JoinedStr, ast.ListComp, ast.DictComp, ast.SetComp)
    if isinstance(value, literals):
        return Finding(outcome=Outcome.NOT_CALLABLE, words="is a constant, not a function", help="name a function")
    if isinstance(value, ast.Lambda):
        arguments = value.args
        required = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
        if required <= 1 and all(default is not None for default in arguments.kw_defaults):
            return Finding(outcome=Outcome.FOUND)
        return Finding(
            outcome=Outcome.NOT_CALLABLE,
            words="takes more than one argument",
            help="take one argument, the event, or none",
        )
    return Finding(outcome=Outcome.DYNAMIC, words="it is the result of an expression")
