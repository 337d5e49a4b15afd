"""`relayctl reconcile`: asks every worker of this machine to look at its apps now. It waits for no reconciling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from relayctl.cli.verb import verb_app

if TYPE_CHECKING:
    from relayctl.cli.workers import Answer

app = verb_app()
_WITHIN_S = 15.0


@app.command()
def reconcile(
    context: typer.Context,
    accept_removals: Annotated[
        str | None,
        typer.Option(metavar="REVISION", help="consent, for the whole fleet, to the removals held at this revision"),
    ] = None,
) -> None:
    """Make the workers here look at their apps now.

    It returns at once with what each worker says; the log and `relayctl health` tell what comes of it.
    """
    from relayctl.cli.desk import Desk, to_json
    from relayctl.cli.exits import harmless
    from relayctl.cli.fleet import warn_unreplicated
    from relayctl.cli.workers import ask_all, no_worker
    from relayctl.host.operator import operator

    desk = Desk(context)
    request = {"by": operator()}
    if accept_removals is not None:
        request["accept_removals"] = accept_removals
    answers = ask_all(desk, "reconcile", request, within_s=_WITHIN_S)
    if not answers:
        raise no_worker(desk)
    documents = [_document(answer) for answer in answers]
    desk.deliver({
        "text": lambda: harmless("".join(f"{_line(document)}\n" for document in documents)),
        "json": lambda: to_json({"v": 1, "workers": documents}),
    })  # fmt: skip
    if any(document.get("replicated") is False for document in documents):
        warn_unreplicated(desk, replicated=False)
    _raise_failure(answers, is_consent=accept_removals is not None)


def _document(answer: Answer) -> dict[str, Any]:
    from relayctl.errors import RelayError

    outcome = answer.outcome
    if isinstance(outcome, RelayError):
        return {"worker": answer.place, "ok": False, "reason": outcome.message}
    if not outcome.is_ok:
        return {"worker": answer.place, "ok": False, "reason": outcome.reason}
    return {"ok": True, **outcome.document}


def _line(document: dict[str, Any]) -> str:
    if not document["ok"]:
        return f"{document['worker']}: {document['reason']}"
    parts = ["looks now"]
    if document.get("accepted"):
        parts.append(f"removals of {document['accepted']} are accepted")
    if document.get("held"):
        parts.append(f"removals are held; if intended: relayctl reconcile --accept-removals {document['held']}")
    if document.get("broken"):
        parts.append(f"broken so far: {', '.join(document['broken'])}")
    if document.get("source_lost"):
        parts.append("could not read its apps at the last look")
    if document.get("awaits"):
        parts.append(document["awaits"])
    if document.get("busy"):
        parts.append(f"the repository is still being fetched by {document['busy']}, and once more after that")
    return f"{document['worker']}: {'; '.join(parts)}"


def _raise_failure(answers: list[Answer], *, is_consent: bool) -> None:
    """A consent counts for the fleet, so one worker that took it is enough; a look is owed by every worker."""
    from relayctl.errors import RelayError, UnknownTarget

    outcomes = [answer.outcome for answer in answers]
    failed = [item for item in outcomes if isinstance(item, RelayError) or not item.is_ok]
    if not failed or (is_consent and len(failed) < len(outcomes)):
        return
    first = failed[0]
    if isinstance(first, RelayError):
        raise first
    raise (UnknownTarget if is_consent else RelayError)(first.reason, help=first.help or None)
