"""Judges answers to tasks of the game: the reserved programs. A problem's `data` has the `task`."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace

from redqueen.base.futures import then
from redqueen.evals.graders.grader import Problem
from redqueen.method.verifier import answer_to
from redqueen.records import Task, Verdict, Verifier


class GameGrader:
    """Hands answers to the game's verifier. The verifier stays open when the grader is closed."""

    def __init__(self, verifier: Verifier) -> None:
        self.verifier = verifier

    def submit(self, problem: Problem, answer: str) -> Future[Verdict]:
        task: Task = problem.data["task"]
        return then(self.verifier.judge_answer(answer_to(task, answer)), _of_the_answer)

    def close(self) -> None:
        """Does nothing: the verifier's opener closes it."""


def _of_the_answer(verdict: Verdict) -> Verdict:
    # A program that does not repeat its own output says nothing about the answer, as a fault of the machine does not.
    if verdict.status == "nondeterministic":
        return replace(verdict, status="infra_error", detail=f"the program is not deterministic: {verdict.detail}")
    return verdict
