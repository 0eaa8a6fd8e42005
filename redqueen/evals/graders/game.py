"""Judges answers to tasks of the game: the reserved programs and CRUXEval. A problem's `data` has the `task`."""

from __future__ import annotations

from concurrent.futures import Future

from redqueen.evals.graders.grader import Grade, Problem
from redqueen.records import Task, Verdict, Verifier


class GameGrader:
    """Hands answers to the game's verifier. The verifier stays open when the grader is closed."""

    def __init__(self, verifier: Verifier) -> None:
        self.verifier = verifier

    def submit(self, problem: Problem, answer: str) -> Future[Grade]:
        """Queues one answer."""
        task: Task = problem.data["task"]
        grade: Future[Grade] = Future()

        def on_verdict(done: Future[Verdict]) -> None:
            error = done.exception()
            if error is not None:
                grade.set_exception(error)
            else:
                grade.set_result(grade_of(done.result()))

        self.verifier.submit_attempt(task, answer).add_done_callback(on_verdict)
        return grade

    def close(self) -> None:
        """Does nothing: whoever opened the verifier closes it."""


def grade_of(verdict: Verdict) -> Grade:
    """Returns a verdict as a grade."""
    # A program that does not repeat its own output says nothing about the answer, as a fault of the machine does not.
    if verdict.status == "nondeterministic":
        return Grade(status="infra_error", detail=f"the program is not deterministic: {verdict.detail}")
    return Grade(status=verdict.status, detail=verdict.detail)
