"""`relayctl rule`: why a lint rule exists, what it finds and how to cure it, with an example of each side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from relayctl.render.rules import Card

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
    wanted = (code or "").upper().removeprefix("RLY").zfill(3)
    found = cards()
    if not everything:
        found = [card for card in found if card.code.removeprefix("RLY") == wanted or card.name == (code or "").lower()]
    if not found:
        raise unknown("rule", code or "", [name for each in RULES for name in (each.code, each.name)])
    desk.deliver({
        "text": lambda: render.listing(found) if everything else render.page(found[0], desk.look.width),
        "json": lambda: to_json(render.as_document(found)),
        "markdown": lambda: render.markdown(found),
    })  # fmt: skip


def cards() -> list[Card]:
    """Every rule with its page, in order."""
    from relayctl.render.rules import Card
    from relayctl.templates.rules.pages import Form, pages
    from relayctl.templates.rules.registry import RULES

    texts = pages()
    return [
        Card(
            code=each.code,
            name=each.name,
            severity=each.severity,
            summary=each.summary,
            fix=each.fix.value,
            can_be_ignored=each.can_be_ignored,
            is_of_plan=each.is_of_plan,
            why=texts[each.code].why,
            keep=texts[each.code].keep,
            token=texts[each.code].token,
            says=texts[each.code].says,
            help=texts[each.code].help,
            bad=texts[each.code].bad.shown,
            good=texts[each.code].good.shown,
            is_console=texts[each.code].form is Form.CONSOLE,
        )
        for each in RULES
    ]
