"""What languages hold out: each reserved program in every kind of the game. It is one benchmark of the runner."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

from redqueen import __version__
from redqueen.config import PlaySettings, SamplingConfig
from redqueen.evals.answers import OWN
from redqueen.evals.benchmarks.benchmark import Benchmark, Form, ProblemSet, Row, Source, form_of
from redqueen.evals.graders.grader import Problem
from redqueen.evals.graders.grader import game as game_grader
from redqueen.evals.held_out import Examples, most_tasks, reserved_tasks, worked_examples
from redqueen.method.prompts import prompts
from redqueen.records import Kind, Prompt, Task, Verifier
from redqueen.tasks.kinds import Half, names_of_languages

NAME = "reserved"
HALF: Half = "report"
# One seed for everybody: all evaluations pose the same tasks, whatever seed a run had.
SEED = 0
ANSWER_TOKENS = 128
"""The fewest tokens that an answer may have: room for the longest reserved program (89 tokens with the bundled model),
which a run's own limit may not leave."""


def answer_tokens(sampling: SamplingConfig) -> int:
    """Returns the most tokens of an answer. A run's own limit counts if it is larger: its members may think first."""
    return max(ANSWER_TOKENS, sampling.attempt_tokens)


def load_reserved(
    settings: PlaySettings,
    verifier: Verifier,
    limit: int | None,
    kinds: Sequence[Kind] | None = None,
    half: Half | None = HALF,
    name: str = NAME,
) -> ProblemSet:
    """Returns the first `limit` tasks of these kinds, of one half of the programs or of both.

    Without `kinds` they are all those of the game's languages. `name` is what they are called in tables.

    They are posed in the run's own prompts, whatever the template of the others is.

    Raises UserError if a program fails in the sandbox.
    """
    if kinds is None:
        kinds = names_of_languages(settings.game.kinds)
    every = most_tasks(half, kinds)
    tasks = reserved_tasks(half, kinds, min(limit or every, every), SEED, verifier)
    origin = f"redqueen {__version__}, half {half}" if half else f"redqueen {__version__}, both halves"
    examples = worked_examples(kinds, settings.game.shots, SEED, verifier)
    return posed_by_run(settings, name, tasks, examples, every, origin)


def load_own(settings: PlaySettings, verifier: Verifier, tasks: Sequence[Task], limit: int | None) -> ProblemSet:
    """Returns the first `limit` of the user's tasks that a run has held out. Raises UserError as `load_reserved`."""
    kinds = list(dict.fromkeys(task.kind for task in tasks))
    examples = worked_examples(kinds, settings.game.shots, SEED, verifier)
    posed = posed_by_run(settings, OWN, tasks[:limit], examples, len(tasks), "held out by the run")
    return replace(posed, benchmark=replace(posed.benchmark, title="YOUR held-out tasks"))


def posed_by_run(
    settings: PlaySettings, name: str, tasks: Sequence[Task], examples: Examples, available: int, origin: str
) -> ProblemSet:
    """Returns tasks of the game as a benchmark that is posed in the run's own prompts.

    `available` is how many there were before some of them were chosen, `origin` where they came from.
    """
    formats = prompts(settings.prompts, settings.game)

    def problem(row: Row) -> Problem:
        task: Task = row["task"]
        return Problem(id=task.id, benchmark=name, prompt=task.program, data=row)

    def pose(problem: Problem, form: Form) -> Prompt:
        task: Task = problem.data["task"]
        return formats.attempt(task, examples[task.kind])

    def read(problem: Problem, form: Form, text: str) -> str | None:
        return formats.read_attempt(problem.data["task"].kind, text)

    benchmark = Benchmark(
        name=name,
        title=name,
        group="other",
        source=Source(rows=available),
        problem=problem,
        pose=pose,
        read=read,
        standard=form_of(settings.prompts),
        max_tokens=answer_tokens(settings.sampling),
        grader=game_grader,
        cut_off_is_malformed=True,
    )
    content = json.dumps([[task.program, task.kind, [pair.input for pair in task.pairs]] for task in tasks])
    return ProblemSet(
        benchmark=benchmark,
        problems=[problem({"task": task, "part": task.kind}) for task in tasks],
        available=available,
        origin=origin,
        sha256=hashlib.sha256(content.encode()).hexdigest(),
    )
