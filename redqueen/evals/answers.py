"""The answers of a run's students to held-out problems, beside those of the adapter that they started from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

OWN = "own"
"""The benchmark of the user's own tasks that a run has held out."""
START = "start"
"""The name of the adapter that all members started from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutAnswer:
    """A member's answer to a held-out problem."""

    member: str
    """Its name, or `START`."""
    benchmark: str
    problem: str
    text: str
    status: str
    """What the grader says: "correct", "wrong", "infra_error" and others."""
    tokens: int
    cut_off: bool
    """Whether the token limit ended the text."""

    @property
    def right(self) -> bool | None:
        """Whether it is right; None after a fault of the machine."""
        return None if self.status == "infra_error" else self.status == "correct"


Problem = tuple[str, str]
"""A benchmark and a problem of it."""


def judged(answers: Iterable[HeldOutAnswer]) -> dict[str, dict[Problem, bool]]:
    """Returns by member which problems it answered rightly; what the machine lost is left out."""
    by_member: dict[str, dict[Problem, bool]] = {}
    for answer in answers:
        right = answer.right
        if right is not None:
            by_member.setdefault(answer.member, {})[answer.benchmark, answer.problem] = right
    return by_member


def differences(member: Mapping[Problem, bool], start: Mapping[Problem, bool]) -> list[int]:
    """Returns, for each problem that both answered, 1 if only the member is right, -1 if only the start is, else 0."""
    return [int(right) - int(start[problem]) for problem, right in member.items() if problem in start]
