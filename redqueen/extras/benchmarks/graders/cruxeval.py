"""Judges answers to CRUXEval: which output a program gives (-O), or an input that makes it give an output (-I).

A problem's `data` has `kind` ("input" or "output"), `code`, which defines `f`, and the benchmark's own `input` and
`output`. The answer is the value, or the arguments, also as `f(...)`. A value is a literal and is read as data, by the
game's own reader of literals. Arguments may be any expressions: those of 12 of the benchmark's rows are no literals
(`lambda x: x < 2`), and they are evaluated in the jail. Values are equal if Python says so, as in the benchmark's own
assertion.
"""

from __future__ import annotations

import ast

from redqueen.evals.graders.grader import Problem
from redqueen.evals.graders.jail import JailedGrader, failed, function_job
from redqueen.jail import CodecError, Limits, encode_arguments, parse_literal
from redqueen.records import Verdict

LIMITS = Limits(cpu_s=3.0, wall_s=120.0)
"""What one call may use: the benchmark gives three seconds."""
ASKED = "asked_of_f"
"""The name of the function that asks: no program has it."""


class CruxEvalGrader(JailedGrader):
    """Judges literals; for -I the benchmark's program runs on them in the jail."""

    def grade(self, problem: Problem, answer: str) -> Verdict:
        """Returns `correct`, `wrong`, `malformed` for what is no literal, or why the program gave no output."""
        data = problem.data
        expected = parse_literal(data["output"])
        if data["kind"] == "output":
            try:
                return _verdict(parse_literal(answer) == expected)
            except CodecError as error:
                return Verdict("malformed", detail=str(error))
        call = _call(answer)
        if call is None:
            return Verdict("malformed", detail="no arguments of f")
        # The arguments are evaluated next to the program, since those of sample_258 name one of its variables.
        program = f"{data['code']}\n\ndef {ASKED}():\n    return {call}\n"
        outcome = self.run(function_job(program, ASKED, "value", [encode_arguments(())], LIMITS))
        if outcome.status != "ok":
            return failed(outcome)
        return _verdict(parse_literal(outcome.outputs[0]) == expected)


def _call(answer: str) -> str | None:
    """Returns the call of f with the arguments in an answer; None if the text is anything else.

    >>> _call("f(1, [2])"), _call("'a' + 'b'"), _call("1) + f(2")
    ('f(1, [2])', "f('a' + 'b')", None)
    """
    for text in (answer.strip(), f"f({answer.strip()})"):
        try:
            node = ast.parse(text, mode="eval").body
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "f":
                return ast.unparse(node)
        # A text of a thousand brackets is too deep for the parser; one with a null byte is a ValueError.
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def _verdict(right: bool) -> Verdict:
    return Verdict("correct" if right else "wrong")
