"""Judges answers to CRUXEval: which output a program gives (-O), or an input that makes it give an output (-I).

A problem's `data` has `kind` ("input" or "output"), `code`, which defines `f`, and the benchmark's own `input` and
`output` as literal text. The answer is a literal: the value, or the arguments, also as `f(...)`. It is read as data, by
the game's own reader of literals. Values are equal if Python says so, as in the benchmark's own assertion.
"""

from __future__ import annotations

from typing import Any

from redqueen.evals.graders.grader import Grade, Problem
from redqueen.evals.graders.jail import JailedGrader, failed, function_job
from redqueen.sandbox import CodecError, Limits, encode_arguments, parse_arguments, parse_literal

LIMITS = Limits(cpu_s=3.0, wall_s=120.0)
"""What one call may use: the benchmark gives three seconds."""


class CruxEvalGrader(JailedGrader):
    """Judges literals; for -I the benchmark's program runs on them in the jail."""

    def grade(self, problem: Problem, answer: str) -> Grade:
        """Returns `correct`, `wrong`, `malformed` for what is no literal, or why the program gave no output."""
        data = problem.data
        try:
            given: Any = parse_literal(answer) if data["kind"] == "output" else parse_arguments(_arguments(answer))
        except CodecError as error:
            return Grade(status="malformed", detail=str(error))
        expected = parse_literal(data["output"])
        if data["kind"] == "output":
            return _verdict(given == expected)
        outcome = self.run(function_job(data["code"], "f", "value", [encode_arguments(given)], LIMITS))
        if outcome.status != "ok":
            return failed(outcome)
        return _verdict(parse_literal(outcome.outputs[0]) == expected)


def _arguments(answer: str) -> str:
    text = answer.strip()
    return text[2:-1] if text.startswith("f(") and text.endswith(")") else text


def _verdict(right: bool) -> Grade:
    return Grade(status="correct" if right else "wrong")
