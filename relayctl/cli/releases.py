"""`relayctl releases`: what was applied, by whom, and what of it can be had back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from relayctl.cli.desk import Desk
    from relayctl.core.release import Release

app = verb_app()


@app.command()
def releases(
    context: typer.Context,
    what: Annotated[str | None, typer.Argument(metavar="show", help="show, for one release in full")] = None,
    number: Annotated[int | None, typer.Argument(metavar="RELEASE", min=1, help="which one")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=100, help="list so many")] = 20,
) -> None:
    """List what was applied, the newest first, or show one release in full."""
    from relayctl.api.applying import release_desk
    from relayctl.cli.desk import Desk
    from relayctl.cli.fleet import place_of
    from relayctl.errors import UsageError
    from relayctl.host.clock import SystemClock

    desk = Desk(context)
    if what not in {None, "show"} or (what == "show") != (number is not None):
        raise UsageError("write relayctl releases, or relayctl releases show RELEASE", help="relayctl releases --help")
    with release_desk(place_of(desk.settings), SystemClock()) as found:
        # Those of a namespace that lives from files by now are history.
        kept, current = found.kept_bundles(), found.serial() if found.mode() == "push" else 0
        shown = found.all()[:limit] if number is None else [found.release(number)]
    _deliver(desk, shown, kept, current, is_one=number is not None)


def _deliver(desk: Desk, shown: list[Release], kept: frozenset[str], current: int, *, is_one: bool) -> None:
    from relayctl.cli.desk import to_json
    from relayctl.cli.exits import harmless
    from relayctl.render import releases as render

    documents = [
        render.document(each, is_kept=each.digest in kept, is_in_force=each.serial == current) for each in shown
    ]
    desk.deliver({
        "text": lambda: harmless(
            render.details(shown[0], is_kept=shown[0].digest in kept, is_in_force=shown[0].serial == current)
            if is_one
            else render.listing(shown, kept, current)
        ),
        "json": lambda: to_json({"v": render.RELEASES_VERSION, "current": current, "releases": documents}),
    })  # fmt: skip
