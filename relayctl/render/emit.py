"""Which rules want an event, and what keeps the others from it, as text and as a document for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from relayctl.core.pattern import Mismatch


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleAnswer:
    """One event rule and every field that keeps the event from it; none when it matches."""

    app: str
    handler: str
    mismatches: tuple[Mismatch, ...]

    @property
    def is_match(self) -> bool:
        """Whether the rule wants the event."""
        return not self.mismatches


def text(answers: Sequence[RuleAnswer]) -> str:
    """Matching rules first, then the others with their reasons, then the count."""
    lines = [f"match     {_name(answer)}" for answer in answers if answer.is_match]
    for answer in answers:
        if answer.is_match:
            continue
        lines.append(f"no match  {_name(answer)}")
        lines += [f"            {_reason(mismatch)}" for mismatch in answer.mismatches]
    matching = sum(answer.is_match for answer in answers)
    total = f"{len(answers)} event rule" + ("" if len(answers) == 1 else "s")
    lines.append(f"the event matches {matching} of {total}; nothing was sent")
    return "".join(f"{line}\n" for line in lines)


def as_document(answers: Sequence[RuleAnswer]) -> dict[str, Any]:
    """A versioned document."""
    return {
        "v": 1,
        "rules": [
            {
                "app": answer.app,
                "handler": answer.handler,
                "matches": answer.is_match,
                "mismatches": [asdict(mismatch) for mismatch in answer.mismatches],
            }
            for answer in answers
        ],
    }


def _name(answer: RuleAnswer) -> str:
    return f"{answer.app}/{answer.handler}"


def _reason(mismatch: Mismatch) -> str:
    return f"{mismatch.path}: found {mismatch.found}, expected {mismatch.expected}"
