"""Asks a verifier for many verdicts at once."""

from __future__ import annotations

from collections.abc import Sequence

from redqueen.method.verifier import answer_to
from redqueen.records import Task, Verdict, Verifier


def grade(verifier: Verifier, attempts: Sequence[tuple[Task, str | None]]) -> list[Verdict]:
    """What `judge_answer` says of each; in order."""
    futures = [verifier.judge_answer(answer_to(task, answer)) for task, answer in attempts]
    return [future.result() for future in futures]
