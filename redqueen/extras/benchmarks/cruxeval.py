"""CRUXEval (Gu et al. 2024): 800 short functions; -O asks for the output of one, -I for an input that gives an output.

These are deduction and abduction, so the forms `chat`, `completion` and `work` are the game's own prompts. The form
`assert` is CRUXEval's: one line of Python with a gap.
"""

from __future__ import annotations

import ast
from typing import Literal

from redqueen.config import GameConfig
from redqueen.evals.benchmark import Benchmark, Form, Row, Source
from redqueen.evals.grader import Grader, JailedGrader, OpenGraders, Problem, failed, function_job, right_or_wrong
from redqueen.jail import CodecError, Limits, encode_arguments, parse_literal
from redqueen.method.prompts import prompts
from redqueen.records import Kind, Pair, Prompt, Task, Verdict
from redqueen.tasks.python import ABDUCTION, DEDUCTION

# Judges answers to CRUXEval: which output a program gives (-O), or an input that makes it give an output (-I).
#
# A problem's `data` has `kind` ("input" or "output"), `code`, which defines `f`, and the benchmark's own `input` and
# `output`. The answer is the value, or the arguments, also as `f(...)`. A value is a literal and is read as data, by
# the game's own reader of literals. Arguments may be any expressions: those of 12 of the benchmark's rows are no
# literals (`lambda x: x < 2`), and they are evaluated in the jail. Values are equal if Python says so, as in the
# benchmark's own assertion.

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
                return right_or_wrong(parse_literal(answer) == expected)
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
        return right_or_wrong(parse_literal(outcome.outputs[0]) == expected)


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


def cruxeval(shared: OpenGraders) -> Grader:
    """Opens the judge of a program's inputs and outputs."""
    return CruxEvalGrader(shared.sandbox)


SOURCE = Source(files=("cruxeval.jsonl", "test.jsonl"), rows=800, hub="cruxeval-org/cruxeval")
_PROMPTS = {name: prompts(name, GameConfig()) for name in ("chat", "completion", "work")}
_LINE = ("\n",)
Asked = Literal["output", "input"]
_KINDS: dict[Asked, Kind] = {"output": DEDUCTION.name, "input": ABDUCTION.name}


def cruxeval_benchmark(*, name: str, title: str, asks: Asked) -> Benchmark:
    """Returns CRUXEval with one of its two questions."""

    def problem(row: Row) -> Problem:
        task = Task(
            id=f"{name}/{row['id']}",
            kind=_KINDS[asks],
            author=name,
            step=0,
            program=row["code"],
            pairs=(Pair(row["input"], row["output"]),),
        )
        return Problem(
            id=row["id"],
            benchmark=name,
            prompt=row["code"],
            data={"task": task, "kind": asks, "code": row["code"], "input": row["input"], "output": row["output"]},
        )

    return Benchmark(
        name=name,
        title=title,
        group="other",
        source=SOURCE,
        problem=problem,
        pose=pose,
        read=read,
        standard="assert",
        max_tokens=512,
        grader=cruxeval,
        programs=program,
    )


def pose(problem: Problem, form: Form) -> Prompt:
    """Returns the prompt of a problem."""
    task: Task = problem.data["task"]
    if form in _PROMPTS:
        return _PROMPTS[form].attempt(task, ())
    pair = task.pairs[0]
    if problem.data["kind"] == "output":
        return Prompt(f"{task.program}\n\nassert f({pair.input}) ==", _LINE)
    return Prompt(f"{task.program}\n\n# one input for which f returns {pair.output}\nassert f(", _LINE)


def read(problem: Problem, form: Form, text: str) -> str | None:
    """Returns the literal or the arguments in a text."""
    task: Task = problem.data["task"]
    if form in _PROMPTS:
        return _PROMPTS[form].read_attempt(task.kind, text)
    return _asserted(task, problem.data["kind"], text)


def _asserted(task: Task, asks: Asked, text: str) -> str | None:
    """Returns the value or the arguments in a completed assertion.

    Models were shown CRUXEval's own prompts, so their forms are read too: a whole assertion or equation, one
    between [ANSWER] and [/ANSWER], one with a comment behind it.
    """
    answer = text.rpartition("[ANSWER]")[2].partition("[/ANSWER]")[0].strip()
    line = answer.partition("\n")[0].strip()
    opened = f"assert f({task.pairs[0].input}) == " if asks == "output" else "assert f("
    for statement in (line, opened + line, f"assert {line}"):
        match _parsed(statement):
            case ast.Module(
                body=[ast.Assert(test=ast.Compare(left=ast.Call() as call, ops=[ast.Eq()], comparators=[value]))]
            ):
                return ast.get_source_segment(statement, value if asks == "output" else call)
            case _:
                continue
    if asks == "input" and _parsed(line) is None:
        # The rest of the assertion may be missing.
        line = line.rpartition(") ==")[0] or line.removesuffix(")")
    return line or None


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    # Texts of models are of any kind: too many brackets, null bytes.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def program(row: Row) -> str:
    """Returns the program that is asked about."""
    return row["code"]


CRUXEVAL_I = cruxeval_benchmark(name="cruxeval-i", title="CRUXEval-I", asks="input")
"""CRUXEval-I: which input gives this output? Any right input counts."""
CRUXEVAL_O = cruxeval_benchmark(name="cruxeval-o", title="CRUXEval-O", asks="output")
"""CRUXEval-O: what does this function return?"""
