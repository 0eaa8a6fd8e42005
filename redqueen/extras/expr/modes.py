"""The language: expressions over two small integers, run by an interpreter of its own, and its three kinds of tasks."""

from __future__ import annotations

import ast
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from redqueen.extras.expr import generated
from redqueen.extras.expr.expressions import (
    LARGEST,
    LARGEST_CONSTANT,
    LARGEST_INPUT,
    parse,
    reductions,
    spell,
    value_of,
)
from redqueen.extras.expr.generated import examples, half_of, shape
from redqueen.jail import Job, Outcome, parse_arguments
from redqueen.records import Draft, Prompt, Task
from redqueen.tasks.kinds.abduction import Abduction
from redqueen.tasks.kinds.deduction import Deduction
from redqueen.tasks.kinds.induction import Induction
from redqueen.tasks.kinds.interpreted import Fault, Interpreted
from redqueen.tasks.kinds.kind import LINE, Block, InputCounts, TaskKind, fence
from redqueen.tasks.kinds.language import Half
from redqueen.tasks.kinds.work import Run, WorkedText, Workings
from redqueen.tasks.programs import parse as parse_python
from redqueen.tasks.programs.normal_form import hashed
from redqueen.tasks.programs.tracing import ARROW


class Expr(Interpreted):
    """Expressions: a small language in which a small model learns in minutes."""

    name = "expr"
    rules = (
        "The program is one expression of x and y, with +, -, *, //, %, max, min, abs and `a if x < y else b` "
        f"(with <, <=, >, >=, == or !=), written as in Python, and whole numbers up to {LARGEST_CONSTANT}. `f` has x "
        f"and y as its arguments, which are whole numbers from -{LARGEST_INPUT} to {LARGEST_INPUT}. No value on the "
        f"way may be beyond {LARGEST}."
    )
    identity = Draft("x", ("1, 0", "2, 3", "-7, 1", "0, 5", "9, 9", "4, -4", "-1, -2", "3, 8"))
    warm_starts: Mapping[str, Path] = {
        "completion": Path(__file__).with_name("warm"),
        "work": Path(__file__).with_name("warm_work"),
    }

    def run(self, program: str, arguments: tuple[Any, ...]) -> int:
        expression = parse(program)
        if len(arguments) != 2 or any(type(value) is not int for value in arguments):
            raise Fault("malformed", "an input is two whole numbers, e.g. 3, -4")
        if any(abs(value) > LARGEST_INPUT for value in arguments):
            raise Fault("oversize", f"a number of an input is from -{LARGEST_INPUT} to {LARGEST_INPUT}")
        return value_of(expression, *arguments)

    def trace(self, program: str, given: str, run: Run) -> tuple[str, ...] | None:
        del run
        try:
            x, y = parse_arguments(given)
            return (ARROW.join(map(spell, reductions(parse(program), x, y))),)
        except Fault:
            return None

    def fingerprint(self, program: str) -> str:
        try:
            return hashed(spell(parse(program)))
        except Fault:
            return hashed(program.strip())

    def shape(self, program: str) -> str:
        return shape(program)

    def tree(self, program: str) -> ast.Module:
        # It means the same in Python, so it is measured as the function that it is. Python reads no `07`, so the
        # expression is written in its one spelling.
        return parse_python(f"def f(x, y):\n    return {spell(parse(program))}")

    def seeds(self, own: str | None = None) -> tuple[Draft, ...]:
        return generated.seeds() if own is None else super().seeds(own)

    def drawn(self, rng: random.Random) -> Draft:
        return generated.draft(rng)

    def reserved(self, half: Half | None = None) -> tuple[Draft, ...]:
        if half is None:
            return (*generated.reserved("selection"), *generated.reserved("report"))
        return generated.reserved(half)

    def is_reserved(self, program: str) -> bool:
        return half_of(program) is not None


EXPR = Expr()


class _Unreserved(TaskKind):
    """A kind that refuses tasks similar to reserved ones.

    So much of the language is reserved that a teacher soon writes such a task by chance. No member may train on it.
    """

    def job(self, draft: Draft) -> Job | Outcome:
        if self.language.is_reserved(draft.program):
            return Outcome(status="forbidden", detail="similar to an expression that is reserved for evaluation")
        return super().job(draft)


class _OnePair(_Unreserved):
    """A proposal is two lines: the expression and a call."""

    def ask_proposal(self, start: Task | None, counts: InputCounts) -> Prompt:
        return replace(super().ask_proposal(start, counts), max_lines=2)


class PredictValue(_OnePair, Deduction):
    """`expr_o`: the student sees an expression and the inputs."""

    title = "predict the value of an expression"
    puzzle = "predict the value"


class FindInputs(_OnePair, Abduction):
    """`expr_i`: the student sees an expression and its value."""

    title = "find inputs that give the value"
    puzzle = "find the inputs"


class WriteExpression(_Unreserved, Induction):
    """`expr_f`: the student sees examples. It is judged on others, by the values.

    The teacher writes the expression. The language draws the inputs, so no teacher can hide what matters.
    """

    title = "write the expression from examples"
    puzzle = "write the expression"
    starts_from_program = False

    def idea(self, program: str, message: str) -> str:
        return TaskKind.idea(self, program, message)

    def of_program(self, whole: Task, rng: random.Random | None = None) -> Task | None:
        made = super().of_program(whole, rng)
        return made and replace(made, message="")

    def ask_proposal(self, start: Task | None, counts: InputCounts) -> Prompt:
        return replace(TaskKind.ask_proposal(self, start, counts), stop=LINE)

    def read_proposal(self, text: str, start: Task | None, counts: InputCounts) -> Draft | str:
        return _with_examples(text, counts)

    def write_proposal(self, task: Task, counts: InputCounts) -> str:
        return task.program

    def worked_proposal(self, task: Task, counts: InputCounts) -> str:
        return task.program

    def question(self, task: Task) -> Prompt:
        lines = [self.language.equation(pair.input, pair.output) for pair in task.shown]
        return Prompt("\n".join([*lines, self.language.ask_output("x, y")]), LINE)

    def write_answer(self, task: Task) -> str:
        return f" {task.program}"

    def read_answer(self, text: str) -> str | None:
        return text.strip() or None

    def write_work(self, task: Task, workings: Workings) -> None:
        # An expression has no comments.
        return None

    def read_work(self, text: str) -> WorkedText:
        return TaskKind.read_work(self, text)

    def goal(self, counts: InputCounts) -> str:
        return (
            "Invent an expression such that somebody who sees its values for a few inputs can, with real reasoning, "
            "write it."
        )

    def proposal_form(self, counts: InputCounts) -> str:
        return f"a ```{self.language.words.fence} block with the expression"

    def read_proposal_blocks(self, blocks: Sequence[Block], start: Task | None, counts: InputCounts) -> Draft | str:
        programs = [body for name, body in blocks if name == self.language.words.fence]
        if len(programs) != 1:
            return f"one ```{self.language.words.fence} block is needed"
        return _with_examples(programs[0], counts)

    def write_proposal_blocks(self, task: Task) -> list[Block]:
        return [(self.language.words.fence, task.program)]

    def worked_proposal_blocks(self, task: Task) -> list[Block]:
        return self.write_proposal_blocks(task)

    def chat_question(self, task: Task) -> str:
        asked = "Write an expression that gives these values for these x and y; it will be judged on others."
        lines = [self.language.equation(pair.input, pair.output) for pair in task.shown]
        return "\n\n".join([asked, fence("examples", "\n".join(lines))])

    def answer_form(self) -> str:
        return f"one ```{self.language.words.fence} block with the expression"

    def write_question(self, task: Task) -> str:
        return "\n".join(self.language.equation(pair.input, pair.output) for pair in task.pairs)


def _with_examples(text: str, counts: InputCounts) -> Draft | str:
    program = text.strip()
    inputs = examples(program, counts.most)
    # A text that is no expression has none either. Its verdict comes from running it, which says what is wrong.
    return Draft(program, inputs or ("0, 0",)) if program else "an expression is needed"


KINDS = (PredictValue("expr_o", EXPR), FindInputs("expr_i", EXPR), WriteExpression("expr_f", EXPR))
