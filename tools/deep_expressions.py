"""A benchmark of the experiment in expr: values of reserved expressions that are deeper than the seeds.

    redqueen train expr plugins=tools.deep_expressions evals.benchmarks=deep_expressions

The seeds are of depth 1 to 3. These are of depth 4 to 7, as many of each.
"""

from __future__ import annotations

from itertools import islice

from redqueen import plugins
from redqueen.config import GameConfig
from redqueen.evals.benchmark import Benchmark, Form, Row, Source
from redqueen.evals.grader import Problem, game
from redqueen.extras.expr.generated import EXAMPLES, examples, reserved_stream
from redqueen.extras.expr.modes import EXPR
from redqueen.method.prompts import Prompts, prompts
from redqueen.records import Pair, Prompt, Task

KIND = "expr_o"
DEPTHS = (4, 5, 6, 7)
EACH = 60


def rows() -> list[Row]:
    """Returns the tasks, the depths in turn, so that a limit takes as many of each."""
    by_depth = {depth: list(islice(reserved_stream("report", depth), EACH)) for depth in DEPTHS}
    return [{"depth": depth, "number": n, "program": by_depth[depth][n]} for n in range(EACH) for depth in DEPTHS]


def problem(row: Row) -> Problem:
    """Returns a row as a problem."""
    # Each expression is asked with another of its inputs.
    given = examples(row["program"], EXAMPLES)[row["number"] % EXAMPLES]
    (output,) = EXPR.job(row["program"], (given,)).outputs
    name = f"depth-{row['depth']}-{row['number']}"
    task = Task(id=name, kind=KIND, author="seed", step=0, program=row["program"], pairs=(Pair(given, output),))
    return Problem(id=name, benchmark="deep_expressions", prompt=row["program"], data={"task": task})


def pose(problem: Problem, form: Form) -> Prompt:
    """Returns the prompt in the format of the run."""
    return _formats(form).attempt(problem.data["task"], ())


def read(problem: Problem, form: Form, text: str) -> str | None:
    """Returns the answer in a student's text."""
    return _formats(form).read_attempt(KIND, text)


def _formats(form: Form) -> Prompts:
    return prompts("completion" if form == "assert" else form, GameConfig())


@plugins.benchmark
def deep_expressions() -> Benchmark:
    """The value of an expression of depth 4 to 7."""
    return Benchmark(
        name="deep_expressions",
        title="Deep expressions",
        group="other",
        source=Source(rows=EACH * len(DEPTHS), made=rows),
        problem=problem,
        pose=pose,
        read=read,
        standard="completion",
        max_tokens=240,
        grader=game,
        cut_off_is_malformed=True,
    )
