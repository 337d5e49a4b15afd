"""`relayctl health`: asks every worker of this machine whether it is sound. It looks at no broker itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from relayctl.cli.workers import Answer
    from relayctl.core.health import HealthReport

app = verb_app()
_WITHIN_S = 5.0


@app.command()
def health(context: typer.Context) -> None:
    """Ask the workers here whether scheduling is sound.

    Exit code 0 when all that run on this state directory are sound, 1 when one is not or none runs. -v shows every
    check.
    """
    from relayctl.cli import exits
    from relayctl.cli.desk import Desk, to_json
    from relayctl.cli.workers import ask_all, no_worker
    from relayctl.render.health import as_document, text

    desk = Desk(context)
    reports = [_report(answer) for answer in ask_all(desk, "health", {}, within_s=_WITHIN_S)]
    is_sound = bool(reports) and all(report.is_ready for report in reports)
    desk.deliver({
        "text": lambda: exits.harmless(text(reports, is_verbose=desk.is_verbose)),
        "json": lambda: to_json(as_document(reports, is_sound=is_sound)),
    })  # fmt: skip
    if not reports:
        exits.complain(*exits.lines_of(no_worker(desk)))
    if not is_sound:
        raise exits.Ended(exits.Code.FINDINGS)


def _report(answer: Answer) -> HealthReport:
    from relayctl.core.health import HealthReport, unanswering
    from relayctl.errors import RelayError

    if isinstance(answer.outcome, RelayError):
        return unanswering(answer.place, answer.outcome.message)
    if not answer.outcome.is_ok:
        return unanswering(answer.place, answer.outcome.reason)
    try:
        return HealthReport.from_json(answer.outcome.document)
    except (KeyError, TypeError, ValueError):
        return unanswering(answer.place, "it answered in a form that this relayctl does not know")
