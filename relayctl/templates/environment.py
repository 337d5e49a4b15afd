"""Environment, secret references and limits of an app. No value is ever put into a message."""

from __future__ import annotations

import re
from fractions import Fraction

from relayctl.core.model import Resources
from relayctl.templates.document import ScalarNode
from relayctl.templates.fields import Fields
from relayctl.templates.scalars import loses_text

_MEMORY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(KiB|MiB|GiB)", re.ASCII)
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_LARGEST_MEMORY = 1 << 60


def env_of(top: Fields) -> tuple[tuple[str, str], ...]:
    """Variables, sorted by name. An unquoted number is kept only where its exact characters survive."""
    written = top.mapping("env")
    if written is None:
        return ()
    pairs = []
    for name, (_, node) in written.node.entries.items():
        if not isinstance(node, ScalarNode) or node.value is None:
            continue
        if node.is_plain and loses_text(node.text, node.value):
            written.add(
                "RLY010",
                node,
                f"env value of {name[:80]} is text, but without quotes YAML readers take it for another value",
                detail="its exact characters would be lost",
                help=f"put the value of {name[:80]} in quotes",
                path=(*written.path, name),
                fix=top.document.source.enclose(node.start, node.end),
            )
        if "\0" in node.text:
            written.refuse(name, "RLY104", f"env value of {name[:80]} holds a NUL character", "remove it")
        pairs.append((name, node.text))
    return tuple(sorted(pairs))


def secrets_of(top: Fields) -> tuple[tuple[str, str], ...]:
    """Secret references, sorted by name. A name cannot be both a secret and a plain variable."""
    written = top.mapping("secrets")
    if written is None:
        return ()
    plain = top.mapping("env")
    pairs = []
    for name, (key, node) in written.node.entries.items():
        if plain is not None and plain.has(name):
            written.add(
                "RLY104",
                key,
                f"{name[:80]} is in env and in secrets",
                help="keep one of the two",
                path=(*written.path, name),
            )
        if isinstance(node, ScalarNode) and isinstance(node.value, str):
            _check_reference(written, name, node.value)
            pairs.append((name, node.value))
    return tuple(sorted(pairs))


def _check_reference(written: Fields, name: str, reference: str) -> None:
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}", reference, re.ASCII) is None:
        written.refuse(
            name,
            "RLY104",
            f"secrets.{name[:80]} is no secret reference",
            "write the name of a stored secret, such as database-url, never its value",
            detail="letters, digits, '.', '_' and '-' only",
        )


def resources_of(written: Fields | None) -> Resources | None:
    """Limits of a process tree."""
    if written is None:
        return None
    cpus = written.plain("cpus")
    return Resources(
        memory=_memory(written),
        cpus=float(cpus) if isinstance(cpus, int | float) and not isinstance(cpus, bool) else None,
        pids=written.integer("pids", 0) or None,
    )


def _memory(written: Fields) -> int | None:
    text = written.text("memory")
    found = None if text is None else _MEMORY.fullmatch(text)
    if found is None:
        return None
    size = Fraction(found[1]) * _UNITS[found[2]]
    if not 0 < size <= _LARGEST_MEMORY or size.denominator != 1:
        written.refuse("memory", "RLY108", "memory must be a whole number of bytes above zero", "write it as in 256MiB")
        return None
    return int(size)
