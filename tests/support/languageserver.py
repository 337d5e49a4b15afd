"""The YAML language server that editors use, spoken to over its protocol: hover, completion and diagnostics of a text.

It is installed once per test run from the npm registry, into the run's own temporary folder; it fetches no schema.
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PACKAGE = "yaml-language-server@2.0.0"
_ABSENT = re.compile(r"ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ECONNREFUSED|ECONNRESET|ENETUNREACH|ENOTCACHED|E40[34]|E50[0-9]")


def installed(root: Path) -> Path:
    """The folder with the server's packages; the test is skipped where it cannot be had."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("no npm and node here, so no language server")
    root.mkdir(exist_ok=True)
    program = root / "node_modules" / "yaml-language-server" / "bin" / "yaml-language-server"
    # Test processes share it: the first one installs, the others wait.
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            reason = _install(root)
            if reason:
                pytest.skip(f"the npm registry does not give {PACKAGE}: {reason}")
    return program


def _install(root: Path) -> str:
    """Why it cannot be had; anything else that goes wrong is an error."""
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
    command = ["npm", "install", "--prefix", str(root), *options, PACKAGE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return "no answer in two minutes"
    absent = _ABSENT.search(done.stderr)
    assert done.returncode == 0 or absent, done.stderr
    return absent.group() if done.returncode and absent else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One thing that the editor underlines: where, counted from 1, and the words."""

    line: int
    column: int
    message: str


class LanguageServer:
    """One running server. `schemas` maps a schema file to the patterns of the files that it is for."""

    def __init__(self, program: Path, workspace: Path, schemas: dict[str, list[str]]) -> None:
        self._process = subprocess.Popen(
            ["node", str(program), "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._settings = {
            "yaml": {
                "schemas": schemas,
                "schemaStore": {"enable": False},
                "hover": True,
                "completion": True,
                "validate": True,
                "format": {"enable": False},
            }
        }
        self._last = 0
        self._opened: dict[str, tuple[int, str, list[dict[str, Any]]]] = {}
        self.workspace = workspace
        root = workspace.as_uri()
        self._ask(
            "initialize",
            {
                "processId": None,
                "rootUri": root,
                "workspaceFolders": [{"uri": root, "name": "workspace"}],
                "capabilities": {
                    "textDocument": {
                        "completion": {"completionItem": {"snippetSupport": True, "documentationFormat": ["markdown"]}},
                        "hover": {"contentFormat": ["markdown"]},
                        "publishDiagnostics": {},
                    },
                    "workspace": {"configuration": True},
                },
            },
        )
        self._tell("initialized", {})
        self._tell("workspace/didChangeConfiguration", {"settings": self._settings})

    def close(self) -> None:
        """End the server."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(timeout=30)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def diagnostics(self, name: str, text: str) -> list[Diagnostic]:
        """What is underlined when the text is opened as the file `name` of the workspace."""
        return [
            Diagnostic(
                line=each["range"]["start"]["line"] + 1,
                column=each["range"]["start"]["character"] + 1,
                message=each["message"],
            )
            for each in self._opened_as(name, text)
        ]

    def hover(self, name: str, text: str, line: int, column: int) -> str:
        """The words shown over a place, counted from 1."""
        found = self._at("textDocument/hover", name, text, line, column)
        return str(found["contents"]["value"]) if found else ""

    def completions(self, name: str, text: str, line: int, column: int) -> dict[str, dict[str, Any]]:
        """What is offered at a place, by label."""
        found = self._at("textDocument/completion", name, text, line, column)
        items = found["items"] if isinstance(found, dict) else found or []
        return {item["label"]: item for item in items}

    def _at(self, method: str, name: str, text: str, line: int, column: int) -> Any:
        self._opened_as(name, text)
        return self._ask(
            method,
            {"textDocument": {"uri": self._uri(name)}, "position": {"line": line - 1, "character": column - 1}},
        )

    def _opened_as(self, name: str, text: str) -> list[dict[str, Any]]:
        version, before, found = self._opened.get(name, (0, "", []))
        if version and before == text:
            return found
        uri, version = self._uri(name), version + 1
        if version == 1:
            document = {"uri": uri, "languageId": "yaml", "version": version, "text": text}
            self._tell("textDocument/didOpen", {"textDocument": document})
        else:
            changed = {"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": text}]}
            self._tell("textDocument/didChange", changed)
        for message in self._messages():
            if message.get("method") == "textDocument/publishDiagnostics" and message["params"]["uri"] == uri:
                found = message["params"]["diagnostics"]
                self._opened[name] = version, text, found
                return found
        raise AssertionError(f"the language server said nothing of {name}")

    def _uri(self, name: str) -> str:
        return (self.workspace / name).as_uri()

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        self._last += 1
        number = self._last
        self._send({"id": number, "method": method, "params": params})
        for message in self._messages():
            if message.get("id") == number and "method" not in message:
                assert "error" not in message, message["error"]
                return message["result"]
        raise AssertionError(f"the language server ended before it answered {method}")

    def _tell(self, method: str, params: dict[str, Any]) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        pipe = self._process.stdin
        assert pipe is not None
        pipe.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        pipe.flush()

    def _messages(self) -> Iterator[dict[str, Any]]:
        """What the server says, its own questions answered on the way."""
        assert self._process.stdout is not None
        while (message := _read(self._process.stdout)) is not None:
            if "method" in message and "id" in message:
                self._send({"id": message["id"], "result": self._answer(message)})
            yield message

    def _answer(self, message: dict[str, Any]) -> Any:
        if message["method"] != "workspace/configuration":
            return None
        return [self._settings.get(item.get("section", "")) for item in message["params"]["items"]]


def _read(pipe: IO[bytes]) -> dict[str, Any] | None:
    length = 0
    while (line := pipe.readline()) not in (b"\r\n", b""):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    if not length:
        return None
    message: dict[str, Any] = json.loads(pipe.read(length))
    return message
