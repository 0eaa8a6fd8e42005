r"""How the mathematics benchmarks are posed and read: the answer is what the last \boxed{...} of a text holds."""

from __future__ import annotations

from collections.abc import Callable

from redqueen.evals.benchmarks.benchmark import Benchmark, Form, Row, Source
from redqueen.evals.graders.extraction import last_boxed
from redqueen.evals.graders.grader import Problem
from redqueen.evals.graders.references import reference_answers
from redqueen.records import Prompt

# A model reads the texts below: a changed word makes results incomparable with earlier ones.
ASK = "{problem}\n\nPlease reason step by step, and put your final answer within \\boxed{{}}."
WORKED = """\
Problem:
Tom has 3 boxes with 4 pens each, and 2 pens more. How many pens does he have?

Solution:
The boxes hold 3 \\cdot 4 = 12 pens. With 2 more he has 12 + 2 = 14 pens. The answer is \\boxed{14}.

"""
COMPLETE = WORKED + "Problem:\n{problem}\n\nSolution:\n"
NEXT = ("\nProblem:",)


def maths_benchmark(
    *, name: str, title: str, source: Source, standard: Form = "chat", adapt: Callable[[Row], Row] = dict
) -> Benchmark:
    """Returns a benchmark whose rows are problems with a final answer.

    `adapt` gives a row the fields that its reference answer is read from.
    """

    def problem(row: Row) -> Problem:
        answers = reference_answers(name, adapt(row))
        number = next(str(row[key]) for key in ("unique_id", "id", "idx", "problem", "question") if key in row)
        return Problem(id=number, benchmark=name, prompt=_text(row), data={"answers": answers})

    return Benchmark(
        name=name,
        title=title,
        group="maths",
        source=source,
        problem=problem,
        pose=pose,
        read=read,
        standard=standard,
        max_tokens=2048,
        grader="maths",
    )


def _text(row: Row) -> str:
    # OlympiadBench keeps what several questions share in a field of its own.
    text = row["problem"] if "problem" in row else row["question"]
    return f"{row['context']}\n\n{text}" if row.get("context") else text


def pose(problem: Problem, form: Form) -> Prompt:
    """Returns the prompt of a problem."""
    if form == "chat":
        return Prompt(ASK.format(problem=problem.prompt), (), chat=True)
    # Texts of problems hold braces, so `format` sees the frame alone.
    return Prompt(COMPLETE.replace("{problem}", problem.prompt), NEXT)


def read(problem: Problem, form: Form, text: str) -> str | None:
    """Returns what the last box of a text holds."""
    del problem, form
    return last_boxed(text)
