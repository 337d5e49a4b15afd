"""`relayctl secret`: the values of secret references that this machine keeps. A value is read, and never shown.

It comes from stdin or is asked for, since an argument would stand in the process list and the shell's history.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from relayctl.cli.desk import Desk
    from relayctl.host.secrets import SecretStore

app = verb_app("Keep values of secret references on this machine.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="the reference, as a template's secrets write it")]


@app.command("set")
def set_value(context: typer.Context, name: Name) -> None:
    """Keep a value, read from stdin or asked for.

    One newline at its end is left out when the value is used. Workers use it from the next run on.
    """
    from relayctl.cli.desk import Desk
    from relayctl.host.secrets import check_reference
    from relayctl.host.state import StateDir

    desk = Desk(context)
    check_reference(name)
    value = _read_value(desk, name)
    # This makes the directory private and unknown to git before anything secret is in it.
    StateDir(desk.settings.state_dir).create()
    _store(desk).set(name, value)
    desk.remark(f"secret {name}: kept in {desk.settings.state_dir}")


@app.command("ls")
def list_names(context: typer.Context) -> None:
    """List the references that have a value here."""
    from relayctl.cli.desk import Desk, to_json
    from relayctl.host.secrets import SecretStore
    from relayctl.host.state import StateDir

    desk = Desk(context)
    settings = desk.settings
    names = SecretStore(settings.secrets_dir, StateDir(settings.state_dir).secrets).names()
    if not names:
        desk.remark("note: no reference has a value here; relayctl secret set NAME keeps one")
    desk.deliver({
        "text": lambda: "".join(f"{name}\n" for name in names),
        "json": lambda: to_json({"v": 1, "secrets": names}),
    })  # fmt: skip


@app.command("rm")
def remove(context: typer.Context, name: Name) -> None:
    """Forget a value that is kept here; a mounted directory is left alone."""
    from relayctl.cli.desk import Desk
    from relayctl.cli.tree import unknown

    desk = Desk(context)
    store = _store(desk)
    if not store.remove(name):
        raise unknown("secret", name, store.names())
    desk.remark(f"secret {name}: forgotten")


def _store(desk: Desk) -> SecretStore:
    """The local store alone."""
    from relayctl.host.secrets import SecretStore
    from relayctl.host.state import StateDir

    return SecretStore(None, StateDir(desk.settings.state_dir).secrets)


def _read_value(desk: Desk, name: str) -> str:
    from relayctl.errors import UsageError
    from relayctl.host.secrets import MAX_SECRET_BYTES

    if desk.may_ask:
        return str(typer.prompt(f"value of {name}", hide_input=True, err=True))
    way_out = f"relayctl secret set {name} < FILE"
    if sys.stdin.isatty():
        raise UsageError("a value is needed, and --no-input forbids to ask for it", help=way_out)
    data = sys.stdin.buffer.read(MAX_SECRET_BYTES + 1)
    try:
        value = data.decode()
    except UnicodeDecodeError:
        raise UsageError("the value is not UTF-8 text", help="encode it, as base64 for instance") from None
    if not value.strip("\r\n"):
        raise UsageError("there is no value on stdin", help=way_out)
    return value
