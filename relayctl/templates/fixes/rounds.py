"""Mends a text in rounds: put fixes in, judge again, take back what made it worse. It reads and writes no file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from relayctl.core.model import App
from relayctl.core.problem import Problem
from relayctl.templates.fixes.edits import applied

_MOST_ROUNDS = 400
"""A file of tabs takes one for each line that its parser stumbles over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What is wrong with a text. `is_readable` False: nothing but the first thing that kept it from being read."""

    problems: Sequence[Problem]
    is_readable: bool
    app: App | None = None
    schedules: int = 0
    """What `Loaded` says of them, where somebody asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A fix that was tried and taken back."""

    problem: Problem
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """A text after its fixes: the problems that they cured, and those whose fix was taken back."""

    data: bytes
    fixed: tuple[Problem, ...] = ()
    refused: tuple[Refusal, ...] = ()
    state: Judged | None = None
    """How the text was judged at last."""


Judge = Callable[[bytes], Judged]
_Key = tuple[str, str, str]


def mended(data: bytes, judge: Judge, wants: Callable[[Problem], bool], state: Judged | None = None) -> Mended:
    """The text with every fix put in that `wants` takes and that makes it better.

    A fix is taken back when the text could not be read any more, when it has more errors than before, or when the
    problem is still there. `state` is how the text is judged, where that is known.
    """
    state = state or judge(data)
    fixed: list[Problem] = []
    refused: dict[_Key, Refusal] = {}
    for _ in range(_MOST_ROUNDS):
        offered = [
            problem
            for problem in state.problems
            if problem.fix is not None and wants(problem) and _key(problem) not in refused
        ]
        if not offered:
            break
        data, state, cured = _round(data, state, offered, judge, refused)
        fixed += cured
    return Mended(data=data, fixed=tuple(fixed), refused=tuple(refused.values()), state=state)


def _round(
    data: bytes, state: Judged, offered: list[Problem], judge: Judge, refused: dict[_Key, Refusal]
) -> tuple[bytes, Judged, list[Problem]]:
    """All of them at once; where that does not go well, as many of the first of them as go well together."""
    many = len(offered)
    while many > 1:
        draft, taken = applied(data, offered[:many])
        after = judge(draft)
        if _has_no_new_error(state, after) and _objection(state, after, taken) is None:
            return draft, after, taken
        many //= 2
    for problem in offered:
        draft, taken = applied(data, [problem])
        after = judge(draft)
        reason = _objection(state, after, taken)
        if reason is None:
            return draft, after, taken
        refused[_key(problem)] = Refusal(problem=problem, reason=reason)
    return data, state, []


def _objection(before: Judged, after: Judged, taken: Sequence[Problem]) -> str | None:
    """Why the later state is no better, if it is not."""
    if not before.is_readable:
        if after.is_readable or _first_place(after) > _first_place(before):
            return None
        return "the file still could not be read"
    if not after.is_readable:
        return f"the file could not be read any more ({after.problems[0].code})"
    were, are = _counted(before.problems), _counted(after.problems)
    if len(_errors(after)) > len(_errors(before)):
        new = next((each for each in _errors(after) if are[_key(each)] > were[_key(each)]), after.problems[0])
        return f"it would bring an error: {new.code} {new.message}"
    if any(are[_key(each)] >= were[_key(each)] for each in taken):
        return "it would not cure it"
    return None


def _has_no_new_error(before: Judged, after: Judged) -> bool:
    if not before.is_readable:
        return True
    were = _counted(before.problems)
    return all(count <= were[key] for key, count in _counted(_errors(after)).items())


def _errors(state: Judged) -> list[Problem]:
    return [problem for problem in state.problems if problem.is_error]


def _first_place(state: Judged) -> tuple[int, int]:
    return min((problem.place.line, problem.place.column) for problem in state.problems)


def _counted(problems: Iterable[Problem]) -> Counter[_Key]:
    return Counter(_key(problem) for problem in problems)


def _key(problem: Problem) -> _Key:
    """What a problem is known by while lines move."""
    return problem.code, problem.place.path, problem.message
