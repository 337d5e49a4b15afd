"""Why a saved plan may not be applied, in words, and what to do instead."""

from __future__ import annotations

from relayctl.core.counting import counted, listed
from relayctl.core.planfile import Applied, Basis, Reason, Refusal
from relayctl.render.instants import utc_text

_MOST_NAMED = 5
_SHORT = 8
_TITLES = {
    Reason.NAMESPACE: "this plan was made for another namespace",
    Reason.APPLIED: "this plan was applied before",
    Reason.LOST: "what this plan was made from is gone",
    Reason.MOVED: "this plan is out of date",
    Reason.EDITED: "the templates were edited since this plan was made",
}
_AGAIN = "relayctl plan --out FILE makes a new one"


def refusal_words(refusal: Refusal) -> tuple[str, str]:
    """The message, of several lines, and the way out."""
    saved = refusal.saved
    was = "" if saved.basis.release is None else f" from release {saved.basis.release}"
    lines = [
        _TITLES[refusal.reason],
        f"  plan    {saved.short_id}, made {utc_text(saved.made_at)} by {saved.by}{was}",
        f"  now     {_now(refusal)}",
    ]
    if refusal.overlap:
        lines.append(f"  overlap {_overlap(refusal.overlap)}")
    return "\n".join(lines), _way_out(refusal)


def _now(refusal: Refusal) -> str:
    was, now = refusal.saved.basis, refusal.now
    match refusal.reason:
        case Reason.NAMESPACE:
            return f"namespace {now.namespace}, and the plan is for {was.namespace}"
        case Reason.APPLIED:
            return _release(refusal.release, "it became ")
        case Reason.LOST:
            other = "another broker, or one that lost its data" if was.epoch != now.epoch else "the same broker"
            return f"{other}: {_schedules(now)}, and the plan was made with {_schedules(was)}"
        case Reason.MOVED:
            return _release(refusal.release, "") or "something else runs than when it was made, and no release says so"
        case Reason.EDITED:
            return f"the tree is {now.template[:_SHORT]}, and the plan is for {was.template[:_SHORT]}"


def _release(release: Applied | None, lead: str) -> str:
    if release is None:
        return ""
    message = f': "{release.message}"' if release.message else ""
    return f"{lead}release {release.serial}, applied {utc_text(release.at)} by {release.by}{message}"


def _schedules(basis: Basis) -> str:
    return counted(basis.schedules, "schedule") if basis.schedules else "no schedules"


def _overlap(names: tuple[str, ...]) -> str:
    return f"{listed(names, _MOST_NAMED)} {'is' if len(names) == 1 else 'are'} in both"


def _way_out(refusal: Refusal) -> str:
    match refusal.reason:
        case Reason.NAMESPACE:
            return f"relayctl apply --namespace {refusal.saved.basis.namespace} FILE, if that is what you mean"
        case Reason.APPLIED:
            return f"nothing is left to do; {_AGAIN}"
        case Reason.LOST:
            return f"look first: relayctl status; {_AGAIN}"
        case Reason.MOVED:
            return _AGAIN
        case Reason.EDITED:
            return f"{_AGAIN}, or bring back the templates of then"
