"""What a benchmark is, and the one that languages bring: each reserved program in every kind of the game."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from redqueen import __version__
from redqueen.config import PlaySettings, SamplingConfig
from redqueen.evals.grader import OpenGrader, Problem
from redqueen.evals.grader import game as game_grader
from redqueen.evals.held_out import OWN, Examples, most_tasks, reserved_tasks, worked_examples
from redqueen.method.prompts import prompts
from redqueen.records import Kind, Prompt, Task, Verifier
from redqueen.tasks.kinds import Half, names_of_languages

Row = Mapping[str, Any]
Group = Literal["code", "maths", "other"]
"""The paper's table averages `code` and `maths`; what it does not have is `other`."""
Template = Literal["chat", "completion", "work", "standard"]
Form = Literal["chat", "completion", "work", "assert"]
"""How a problem is written: as a message, as a text to go on with, as one with work before the answer (where the game's
own prompts pose it; else the same as `completion`), or as CRUXEval's line `assert f(...) == ...`."""


def form_of(prompts: str) -> Literal["chat", "completion", "work"]:
    """Returns how problems are written for members that were trained with this format of prompts."""
    # A prompt format of a plugin is written for texts that go on, as `completion` is.
    return prompts if prompts in ("chat", "work") else "completion"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the rows of a benchmark are."""

    rows: int
    """How many rows the whole benchmark has."""
    files: tuple[str, ...] = ()
    """The names that its file may have in a folder of data. Several names that are all needed are joined by "+"."""
    made: Callable[[], Sequence[Row]] | None = None
    """Makes the rows, the same each time; None if they are in files."""
    hub: str = ""
    """Its id on the Hugging Face hub; "" if it has none there."""
    subset: str | None = None
    split: str = "test"
    revision: str = ""
    """The commit on the hub whose files are read as they are; "" if the data set is loaded by its split."""
    release: str = ""
    """The address of its first file, where the hub's rows lack what the grader needs."""
    sha256: str = ""
    """The checksum of the file of that release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One benchmark."""

    name: str
    title: str
    """Its name in tables."""
    group: Group
    source: Source
    problem: Callable[[Row], Problem]
    """Makes a problem of a row. It raises an error of Python or UserError if the row is not as expected."""
    pose: Callable[[Problem, Form], Prompt]
    read: Callable[[Problem, Form, str], str | None]
    """Takes the answer out of a text; None if it has none. Reading evaluates nothing."""
    standard: Form
    """The form that the template `standard` means: the one that its authors publish results with."""
    max_tokens: int
    """The most tokens of an answer, unless the user chooses another number."""
    grader: OpenGrader
    """Opens what judges its answers."""
    programs: Callable[[Row], str] | None = None
    """The program that a row shows or asks for, to compare it with a run's own tasks; None if rows have none."""
    cut_off_is_malformed: bool = False
    """Whether a text that the token limit ended is malformed, as in the game. Benchmarks read what there is, as
    their own harnesses do."""

    def form(self, template: Template) -> Form:
        """Returns the form that its problems are posed in."""
        # What languages hold out has no rows of its own, and is posed in the configuration's prompts.
        of_run = not (self.source.files or self.source.hub or self.source.made)
        return self.standard if of_run or template == "standard" else template


def own_code(benchmark: Benchmark) -> list[str]:
    """Returns the code of the modules that read and judge a user's own benchmark; nothing for the project's.

    A changed rule should show its new verdicts, and not the stored ones.
    """
    modules = {part.__module__ for part in (benchmark.problem, benchmark.read, benchmark.grader)}
    files = [getattr(sys.modules.get(module), "__file__", None) for module in sorted(modules) if not _is_ours(module)]
    return [Path(file).read_text(encoding="utf-8") for file in files if file is not None]


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == __name__.partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemSet:
    """The problems of one benchmark, as they are evaluated."""

    benchmark: Benchmark
    problems: Sequence[Problem]
    available: int
    """How many rows there were before the limit."""
    origin: str
    """The file, or the hub's id."""
    sha256: str
    """Of the file, or of the rows as JSON."""
    programs: Sequence[str] = ()
    """The programs of the rows, where the benchmark has any."""

    @property
    def whole(self) -> bool:
        """Whether nothing was left out."""
        return len(self.problems) == self.available == self.benchmark.source.rows


# What languages hold out: each reserved program in every kind of the game. It is one benchmark of the runner.

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
