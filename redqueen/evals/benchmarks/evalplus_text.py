"""How HumanEval+ and MBPP+ are posed and read: the answer is a whole program."""

from __future__ import annotations

from redqueen.evals.benchmarks.benchmark import Benchmark, Form, Row, Source
from redqueen.evals.graders.extraction import code_answer
from redqueen.evals.graders.grader import Problem
from redqueen.records import Prompt

FIELDS = ("prompt", "canonical_solution", "entry_point", "base_input", "plus_input", "atol")

# A model reads this text: a changed word makes results incomparable with earlier ones.
ASK = """\
Write the Python function that this text asks for. Answer with one ```python block that holds the whole program, with \
its imports.

```python
{prompt}
```"""


def evalplus_benchmark(*, name: str, title: str, source: Source, stop: tuple[str, ...]) -> Benchmark:
    """Returns a benchmark whose rows are those of an evalplus release file. `stop` ends a completion."""

    def problem(row: Row) -> Problem:
        # The grader reads these fields; without them every answer would fail in it.
        missing = [field for field in FIELDS if field not in row]
        if missing:
            raise KeyError(*missing)
        return Problem(id=row["task_id"], benchmark=name, prompt=row["prompt"], data=row)

    def pose(problem: Problem, form: Form) -> Prompt:
        if form == "chat":
            return Prompt(ASK.format(prompt=problem.prompt.strip()), (), chat=True)
        return Prompt(problem.prompt, stop)

    return Benchmark(
        name=name,
        title=title,
        group="code",
        source=source,
        problem=problem,
        pose=pose,
        read=read,
        standard="completion",
        max_tokens=768,
        grader="evalplus",
        programs=whole_program,
    )


def read(problem: Problem, form: Form, text: str) -> str | None:
    """Returns the program: what a message gives, or the prompt with its completion."""
    if form == "chat":
        return code_answer(text, problem.data["entry_point"])
    return problem.prompt + text


def whole_program(row: Row) -> str:
    """Returns the reference solution as a whole program."""
    return row["prompt"] + row["canonical_solution"]
