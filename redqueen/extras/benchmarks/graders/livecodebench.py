"""Judges solutions of LiveCodeBench: functions called with JSON values, and scripts that read standard input.

A problem's `data` has `tests`, each with `input` and `output` as the benchmark's files have them, and `function`: the
name of the method of `Solution` that is called, or None for scripts. The answer is a whole program.

The rules are those of the benchmark's own `testing_util.py`, in code of our own: six seconds a test, a tuple counts as
a list, printed lines are compared without white space at their ends and, where they differ, as decimal numbers. Each
test has a process of its own, so that nothing is left over from the last one. In the jail a solution cannot start
threads, read a clock, or import what is not in the standard library (`numpy`, `sortedcontainers`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

from redqueen.evals.graders.grader import Problem
from redqueen.evals.graders.jail import JailedGrader, failed, function_job, script_job
from redqueen.evals.graders.jailed import carried
from redqueen.jail import BENCHMARKS, Limits, encode_arguments, parse_literal
from redqueen.jail.tokens import decimal
from redqueen.records import Verdict

OUTPUT_BYTES = 1 << 22
LIMITS = Limits(
    cpu_s=6.0,
    wall_s=120.0,
    memory_mb=BENCHMARKS.limits.memory_mb,
    output_bytes=OUTPUT_BYTES,
    input_bytes=BENCHMARKS.limits.input_bytes,
)
"""What a solution may use for one test."""


class LiveCodeBenchGrader(JailedGrader):
    """Judges programs by the tests of their problems; the first that fails decides."""

    def grade(self, problem: Problem, answer: str) -> Verdict:
        """Returns `correct`, or what was wrong with the first test that failed."""
        function = problem.data["function"]
        for number, test in enumerate(problem.data["tests"]):
            verdict = self._method(function, answer, test) if function else self._script(answer, test)
            if verdict.status != "correct":
                where = f"test {number}"
                return replace(verdict, detail=f"{where}: {verdict.detail}" if verdict.detail else where)
        return Verdict("correct")

    def _method(self, function: str, answer: str, test: Mapping[str, str]) -> Verdict:
        arguments = [line for line in test["input"].split("\n") if line.strip()]
        try:
            # The jail reads the arguments. They are read here to tell a fault of the benchmark's from the solution's.
            for line in arguments:
                _json(line)
            expected = carried(_json(test["output"]))
        except (ValueError, RecursionError) as error:
            return Verdict("infra_error", detail=f"the benchmark's own values are no JSON: {error}")
        calls = [encode_arguments(arguments)]
        outcome = self.run(function_job(answer, f"Solution.{function}", "list", calls, LIMITS, preamble=True))
        if outcome.status != "ok":
            return failed(outcome)
        return _verdict(parse_literal(outcome.outputs[0], LIMITS.output_bytes) == expected)

    def _script(self, answer: str, test: Mapping[str, str]) -> Verdict:
        outcome = self.run(script_job(answer, test["input"], LIMITS))
        if outcome.status != "ok":
            return failed(outcome)
        return _verdict(same_text(parse_literal(outcome.outputs[0], LIMITS.output_bytes), str(test["output"])))


def _verdict(right: bool) -> Verdict:
    return Verdict("correct" if right else "wrong")


def _json(text: str) -> Any:
    # Python itself refuses ints of more than 4,300 digits.
    return json.loads(text, parse_int=decimal)


def same_text(output: Any, expected: str) -> bool:
    r"""Returns whether a script printed what was expected, line by line.

    >>> same_text("1.50 \n", "1.5"), same_text("1 2", "1 3")
    (True, False)
    """
    printed = _lines(str(output))
    wanted = _lines(expected)
    return len(printed) == len(wanted) and all(
        _same_line(one, other) for one, other in zip(printed, wanted, strict=True)
    )


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_line(printed: str, wanted: str) -> bool:
    if printed == wanted:
        return True
    try:
        return _numbers(printed.split()) == _numbers(wanted.split())
    except InvalidOperation:
        return False


def _numbers(words: Sequence[str]) -> list[Decimal]:
    return [Decimal(word) for word in words]
