"""`relayctl rule`: what a lint rule says, whether it has a fix, and an example of each side."""

from __future__ import annotations

from typing import Annotated

import typer

from relayctl.cli.verb import verb_app

app = verb_app()


@app.command()
def rule(
    context: typer.Context,
    code: Annotated[str | None, typer.Argument(metavar="[CODE]", help="such as RLY207, or 207, or its name")] = None,
    everything: Annotated[bool, typer.Option("--all", help="list every rule")] = False,
) -> None:
    """Explain a lint rule."""
    from relayctl.cli.desk import Desk, to_json
    from relayctl.cli.tree import unknown
    from relayctl.errors import UsageError
    from relayctl.render import rules as render
    from relayctl.templates.rules.registry import RULES

    desk = Desk(context)
    if (code is None) is not everything:
        raise UsageError("name one rule, or ask for --all", help="relayctl rule RLY207")
    wanted = (code or "").upper().removeprefix("RLY")
    cards = [
        render.Card(
            code=each.code,
            name=each.name,
            severity=each.severity,
            summary=each.summary,
            fix=each.fix.value,
            can_be_ignored=each.can_be_ignored,
            bad=each.bad,
            good=each.good,
        )
        for each in RULES
        if everything or each.code.removeprefix("RLY") == wanted or each.name == code
    ]
    if not cards:
        raise unknown("rule", code or "", [name for each in RULES for name in (each.code, each.name)])
    desk.deliver({
        "text": lambda: render.listing(cards) if everything else render.page(cards[0]),
        "json": lambda: to_json(render.as_document(cards)),
        "markdown": lambda: render.markdown(cards),
    })  # fmt: skip
