"""HumanEval+ and MBPP+: the answer is a whole program."""

from __future__ import annotations

from redqueen.evals.benchmarks.benchmark import Benchmark, Form, Row, Source
from redqueen.evals.graders.extraction import code_answer
from redqueen.evals.graders.grader import Problem
from redqueen.extras.benchmarks.graders.code import reference
from redqueen.extras.benchmarks.graders.opened import evalplus
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
        grader=evalplus,
        programs=reference,
    )


def read(problem: Problem, form: Form, text: str) -> str | None:
    """Returns the program: what a message gives, or the prompt with its completion."""
    if form == "chat":
        return code_answer(text, problem.data["entry_point"])
    return problem.prompt + text


HUMANEVAL = evalplus_benchmark(
    name="humaneval+",
    title="HumanEval+",
    source=Source(
        files=("HumanEvalPlus.jsonl.gz", "HumanEvalPlus.jsonl"),
        rows=164,
        hub="evalplus/humanevalplus",
        release="https://github.com/evalplus/humanevalplus_release/releases/download/v0.1.10/HumanEvalPlus.jsonl.gz",
        sha256="272720b90ac375502c8ed23cd791c2a93dfb22a911641a494da74a426c09f101",
    ),
    # The function ends where another statement begins in the first column.
    stop=("\ndef ", "\nclass ", "\nimport ", "\nfrom ", "\nassert ", "\nif __name__", "\nprint(", "\n#", "\n```"),
)
"""HumanEval+ (Chen et al. 2021; Liu et al. 2023): 164 functions to complete."""
MBPP = evalplus_benchmark(
    name="mbpp+",
    title="MBPP+",
    source=Source(
        files=("MbppPlus.jsonl.gz", "MbppPlus.jsonl"),
        rows=378,
        hub="evalplus/mbppplus",
        release="https://github.com/evalplus/mbppplus_release/releases/download/v0.2.0/MbppPlus.jsonl.gz",
        sha256="af43697e8791c4c149bdfd6b489d8b5412507551ac20e28a439f650b8225db63",
    ),
    # The text may begin with helpers and imports, so these end nothing.
    stop=('\n"""', "\nassert", "\nif __name__", "\ndef main(", "\nprint(", "\n```"),
)
"""MBPP+ (Austin et al. 2021; Liu et al. 2023): 378 functions to write from a sentence and one example."""
