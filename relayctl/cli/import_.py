"""`relayctl import`: a crontab, CronJob manifest or workflow as an app. It writes a new folder or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relayctl.cli.verb import verb_app
from relayctl.errors import os_reason

if TYPE_CHECKING:
    from relayctl.cli.desk import Desk
    from relayctl.core.carried import Import

app = verb_app()
_MOST_BYTES = 1 << 20


class Kind(Enum):
    """What a file is."""

    CRONTAB = "crontab"
    K8S = "k8s"
    GITHUB = "github"


@app.command("import")
def import_(
    context: typer.Context,
    kind: Annotated[Kind, typer.Argument(help="what the file is")],
    source: Annotated[Path, typer.Argument(metavar="FILE|-", help="the file, or - for stdin")],
    name: Annotated[str | None, typer.Option("--app", metavar="NAME", help="name of the new app")] = None,
    timezone: Annotated[
        str, typer.Option(metavar="ZONE", help="zone of a crontab without CRON_TZ: the one of its machine")
    ] = "UTC",
    is_system: Annotated[
        bool, typer.Option("--system", help="a crontab with a user in each line, such as /etc/crontab")
    ] = False,
    is_trial: Annotated[bool, typer.Option("--dry-run", help="print what would be written")] = False,
) -> None:
    """Turn a crontab, CronJobs or a workflow into an app.

    Writes a new folder under the apps directory: a template and one script per job. What cannot be carried is listed
    with its line and the reason; the exit code is 1 when a job is among it.
    """
    from relayctl.cli.desk import Desk, to_json
    from relayctl.cli.exits import Code, Ended
    from relayctl.importers.appfiles import app_files
    from relayctl.render import imported as render

    desk = Desk(context)
    app_name = _app_name(name, source, kind)
    found = _read(kind, source, timezone, is_system=is_system or _is_system(source))
    files = app_files(found, app_name)
    target = desk.settings.apps / app_name
    if files and not is_trial:
        _write_app(target, files)
    outcome = render.Outcome(
        found=found, files=files, target=target, is_trial=is_trial, source=str(source), flags=_flags(desk)
    )
    desk.deliver({
        "text": lambda: render.text(outcome, desk.look.width),
        "json": lambda: to_json(render.as_document(outcome)),
    })  # fmt: skip
    if not found.is_complete or not files:
        raise Ended(Code.FINDINGS)


def _flags(desk: Desk) -> str:
    """The flag that names the tree, where nothing but a flag of this command did."""
    import shlex

    from relayctl.settings import Origin

    is_told = desk.settings.origins["apps"] is Origin.FLAG
    return f" --apps {shlex.quote(str(desk.settings.apps))}" if is_told else ""


def _app_name(given: str | None, source: Path, kind: Kind) -> str:
    from relayctl.core.names import legal_form, why_not_a_name
    from relayctl.errors import UsageError

    name = given or legal_form(source.name.removesuffix(source.suffix)) or f"imported-{kind.value}"
    if reason := why_not_a_name(name):
        close = legal_form(name)
        raise UsageError(f"--app: not a name: {reason}", help=f"such as {close}" if close else None)
    return name


def _read(kind: Kind, source: Path, timezone: str, *, is_system: bool) -> Import:
    text = _text_of(source)
    if kind is Kind.CRONTAB:
        from relayctl.core.cronerror import CronError
        from relayctl.core.zones import zone_named
        from relayctl.errors import UsageError
        from relayctl.importers.crontab import read_crontab

        try:
            zone_named(timezone)
        except CronError as error:
            raise UsageError(f"--timezone: {error.message}", help=error.help) from None
        return read_crontab(text, timezone=timezone, is_system=is_system)
    if kind is Kind.K8S:
        from relayctl.importers.k8s import read_k8s

        return read_k8s(text)
    from relayctl.importers.github import read_github

    return read_github(text, stem=source.stem or "workflow")


def _is_system(source: Path) -> bool:
    return source.parent == Path("/etc/cron.d") or source == Path("/etc/crontab")


def _text_of(source: Path) -> str:
    from relayctl.cli.inputfile import name_of, read_bounded
    from relayctl.errors import UsageError

    name = name_of(source)
    raw = read_bounded(source, _MOST_BYTES, size="1 MiB", way_out="split it")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{name}:{line}: not UTF-8", help="convert it, with iconv for instance") from None


def _write_app(target: Path, files: Mapping[str, str]) -> None:
    """All files or none: they are written beside the place and moved there as one folder."""
    import shutil
    import tempfile

    from relayctl.errors import FileFailure, UsageError

    if target.exists() or target.is_symlink():
        raise UsageError(f"{target}: is there already", help="choose another name with --app, or look with --dry-run")
    draft: str | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent)
        for name, text in files.items():
            path = Path(draft) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
            path.chmod(0o755 if path.parent.name == "bin" else 0o644)
        Path(draft).chmod(0o755)
        Path(draft).rename(target)
    except OSError as error:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)
        raise FileFailure(f"{target}: cannot be written: {os_reason(error)}") from None
