"""CRUXEval (Gu et al. 2024): 800 short functions; -O asks for the output of one, -I for an input that gives an output.

These are deduction and abduction, so the forms `chat` and `completion` are the game's own prompts. The form `assert` is
CRUXEval's: one line of Python with a gap.
"""

from __future__ import annotations

from redqueen.config import GameConfig
from redqueen.evals.benchmarks.benchmark import Benchmark, Form, Row, Source
from redqueen.evals.graders.grader import Problem
from redqueen.game.prompts import ChatPrompts, CompletionPrompts
from redqueen.records import Kind, Pair, Prompt, Task

SOURCE = Source(files=("cruxeval.jsonl", "test.jsonl"), rows=800, hub="cruxeval-org/cruxeval")
_CHAT = ChatPrompts(GameConfig())
_COMPLETION = CompletionPrompts(GameConfig())
_LINE = ("\n",)


def cruxeval_benchmark(*, name: str, title: str, kind: Kind) -> Benchmark:
    """Returns CRUXEval with one of its two questions."""

    def problem(row: Row) -> Problem:
        task = Task(
            id=f"{name}/{row['id']}",
            kind=kind,
            author=name,
            step=0,
            program=row["code"],
            pairs=(Pair(row["input"], row["output"]),),
        )
        return Problem(
            id=row["id"],
            benchmark=name,
            prompt=row["code"],
            data={
                "task": task,
                "kind": "output" if kind == "code_o" else "input",
                "code": row["code"],
                "input": row["input"],
                "output": row["output"],
            },
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
        grader="cruxeval",
        programs=program,
    )


def pose(problem: Problem, form: Form) -> Prompt:
    """Returns the prompt of a problem."""
    task: Task = problem.data["task"]
    if form == "chat":
        return _CHAT.attempt(task, ())
    if form == "completion":
        return _COMPLETION.attempt(task, ())
    pair = task.pairs[0]
    if task.kind == "code_o":
        return Prompt(f"{task.program}\n\nassert f({pair.input}) ==", _LINE)
    return Prompt(f"{task.program}\n\n# one input for which f returns {pair.output}\nassert f(", _LINE)


def read(problem: Problem, form: Form, text: str) -> str | None:
    """Returns the literal or the arguments in a text."""
    task: Task = problem.data["task"]
    if form == "chat":
        return _CHAT.read_attempt(task.kind, text)
    if form == "completion":
        return _COMPLETION.read_attempt(task.kind, text)
    line = text.partition("\n")[0].strip()
    if task.kind == "code_o":
        return line or None
    arguments, bracket, _ = line.rpartition(") ==")
    return arguments if bracket else line.removesuffix(")")


def program(row: Row) -> str:
    """Returns the program that is asked about."""
    return row["code"]
