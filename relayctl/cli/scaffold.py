"""The files that `init` writes, as text. It knows no paths outside the new tree and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping

SCHEMA_PATH = "schemas/template.schema.json"

TEMPLATE = """\
# yaml-language-server: $schema=../../schemas/template.schema.json
# $schema: ../../schemas/template.schema.json
runtime: python
events:
  - handler: greet.on_greeting
    pattern: {event_name: [greeting]}
schedules:
  - name: every-minute
    handler: greet.say_hello
    cron: "* * * * *"
"""

HANDLERS = '''\
"""Handlers are plain functions: each takes the event as a dictionary, and a normal return is success.

A run can come twice, so a handler does its work in a way that may be repeated.
"""


def say_hello(event):
    print(f"hello, it is {event.get('scheduled_at', 'no special time')}")


def on_greeting(event):
    print(f"hello {event.get('name', 'world')}")
'''

APP: Mapping[str, str] = {
    "apps/hello/template.yaml": TEMPLATE,
    "apps/hello/greet.py": HANDLERS,
    ".gitignore": ".relayctl/\n.venv/\n__pycache__/\n",
}
"""Always written, where nothing stands yet."""

EDITOR: Mapping[str, str] = {
    ".vscode/settings.json": """\
{
  "yaml.schemas": {
    "./schemas/template.schema.json": "apps/*/template.yaml"
  }
}
""",
}
"""Offered: which schema belongs to which file, for editors that do not read the comment on top of it."""

HOOKS: Mapping[str, str] = {
    ".pre-commit-config.yaml": """\
repos:
  - repo: local
    hooks:
      - id: relayctl-validate
        name: relayctl validate
        entry: relayctl validate
        language: system
        files: (^|/)apps/[^/]+/template\\.ya?ml$
        require_serial: true
""",
}
"""Offered: the linter before every commit."""
