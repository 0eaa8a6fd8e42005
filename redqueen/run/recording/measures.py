"""Measures each valid task of a step once: its row for the archive, which the metrics of a step are made of too.

What a run has covered is counted from its first step. A resumed run counts it again from the archive's rows.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean
from typing import Any

from redqueen.jail import parse_arguments, parse_literal
from redqueen.method.behaviour import Behaviour
from redqueen.method.played_step import PlayedStep
from redqueen.records import Kind, Task, Verdict
from redqueen.store.archive.rows import MeasureRow
from redqueen.tasks.kinds import find, languages
from redqueen.tasks.kinds.language import Language
from redqueen.tasks.programs import text_of
from redqueen.tasks.programs.complexity import Complexity, complexity_of
from redqueen.tasks.programs.coverage import Coverage, Covered, functions_of, paths_of
from redqueen.tasks.programs.normal_form import hashed, shape
from redqueen.tasks.programs.reached import reached_tree
from redqueen.tasks.programs.signatures import signature, size_of
from redqueen.tasks.python import PYTHON, seed_cells

MEASURES = ("depth", "cyclomatic", "lines", "variables", "nodes", "node_types")
"""The measures of a program's complexity."""
GUESSABLE_RATE = 0.4
"""A task is guessable if so many of random inputs of its types give its output."""
FEW_OUTPUTS = 3
"""A task is guessable if its program has at most so many outputs."""


@dataclass(frozen=True, slots=True)
class MeasuredTask:
    """A task's kind and what was measured of it."""

    kind: Kind
    row: MeasureRow


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMeasures:
    """What was measured in one step."""

    rows: tuple[MeasureRow, ...]
    """One for each valid task, in the order of the tasks."""
    tasks: tuple[MeasuredTask, ...]
    """Those of living teachers: what metrics count."""
    covered: Mapping[str, Covered]
    """What the run's tasks have covered up to this step, by the name of the coverage."""


@dataclass(frozen=True, slots=True)
class ToMeasure:
    """A valid task, with what its verification and its calls showed."""

    step: int
    task: Task
    verdict: Verdict
    behaviour: Behaviour | None


Spread = Callable[[Callable[[ToMeasure], MeasureRow], Sequence[ToMeasure]], Iterable[MeasureRow]]
"""Returns the values of a function of each item, in order, wherever they are computed; `map` computes them here."""


class Measures:
    """Measures the tasks of a run's steps, in order, and counts what they cover."""

    def __init__(self, kinds: Sequence[Kind], spread: Spread = map) -> None:
        """Begins a run of these kinds; `spread` is where tasks are measured."""
        self._spread = spread
        self._coverage = {name: Coverage(cells) for name, cells in cells_of_seeds(kinds).items()}
        self._identities: set[str] = set()

    def restore(self, rows: Iterable[MeasureRow]) -> None:
        """Counts the tasks of the steps before; `rows` are those of members, without those of champions."""
        for row in rows:
            self._count(row)

    def measure(self, played: PlayedStep, behaviours: Mapping[str, Behaviour], living: Iterable[str]) -> StepMeasures:
        """Measures the valid tasks of a step, some of which have `behaviours`, by their ids.

        Tasks of champions, who are not `living`, count in no metric.
        """
        names = set(living)
        valid: list[ToMeasure] = []
        # A fixed task was judged when it was planted.
        every = [(one.proposed.task, one.proposed.verdict) for one in played.proposals]
        every += [(one.posed.task, Verdict("valid")) for one in played.posed]
        for task, verdict in every:
            if task is not None and find(task.kind).language.tree(task.program) is not None:
                valid.append(ToMeasure(played.step, task, verdict, behaviours.get(task.id)))
        # What a task is by itself takes a millisecond and can be computed anywhere. What it is in this run is counted
        # in the order of the tasks.
        rows: list[MeasureRow] = []
        tasks: list[MeasuredTask] = []
        for item, alone in zip(valid, self._spread(measure_task, valid), strict=True):
            row = self._in_this_run(alone)
            rows.append(row)
            if item.task.author in names:
                self._count(row)
                tasks.append(MeasuredTask(item.task.kind, row))
        covered = {name: coverage.covered() for name, coverage in self._coverage.items()}
        return StepMeasures(rows=tuple(rows), tasks=tuple(tasks), covered=covered)

    def _in_this_run(self, row: MeasureRow) -> MeasureRow:
        """Returns the row with what is new in it."""
        return replace(
            row,
            repeated=row.identity in self._identities,
            new_shape=bool(self._coverage["programs"].unseen([row.shape])),
            new_paths=len(self._coverage["paths"].unseen(row.paths.split())),
        )

    def _count(self, row: MeasureRow) -> None:
        for name, cells in cells_of(row).items():
            self._coverage[name].add(cells, row.reached_nodes)
        self._identities.add(row.identity)


COVERAGES = ("programs", "paths", "functions", "signatures", "behaviours")


def cells_of_seeds(kinds: Iterable[Kind]) -> dict[str, set[str]]:
    """Returns what the shipped seed programs of these kinds' languages cover, by the name of the coverage.

    Signatures and behaviours are known of Python's alone, whose are in a file: to know them the seeds have to be run.
    """
    covered: dict[str, set[str]] = {name: set() for name in COVERAGES}
    for language in languages(kinds):
        for name, cells in (seed_cells() if language is PYTHON else _cells_of_texts(language)).items():
            covered[name] |= cells
    return covered


@cache
def _cells_of_texts(language: Language) -> Mapping[str, frozenset[str]]:
    """Returns what the texts of a language's seed programs cover."""
    covered: dict[str, set[str]] = defaultdict(set)
    for draft in language.seeds():
        tree = language.tree(draft.program)
        if tree is not None:
            for name, cells in _cells_of_tree(reached_tree(tree)).items():
                covered[name] |= cells
    return {name: frozenset(cells) for name, cells in covered.items()}


def _cells_of_tree(tree: ast.Module) -> dict[str, frozenset[str]]:
    """Returns what the text of a program covers."""
    return {
        "programs": frozenset([shape(text_of(tree))]),
        "paths": paths_of(tree),
        "functions": functions_of(tree),
    }


def measure_task(item: ToMeasure) -> MeasureRow:
    """Measures a task by itself: its row as if nothing in it were new."""
    task = item.task
    behaviour = item.behaviour
    language = find(task.kind).language
    whole, tree = language.tree(task.program), language.tree(task.program)
    if whole is None or tree is None:
        raise ValueError(f"tasks of the kind {task.kind} are not measured")
    written = complexity_of(whole)
    tree = reached_tree(tree)
    reached = complexity_of(tree)
    cells = _cells_of_tree(tree)
    calls = [parse_arguments(pair.input) for pair in task.pairs]
    outputs = [parse_literal(pair.output) for pair in task.pairs]
    return MeasureRow(
        task=task.id,
        step=item.step,
        **_columns("written", written),
        **_columns("reached", reached),
        input_size=fmean(sum(map(size_of, call)) for call in calls),
        output_size=fmean(map(size_of, outputs)),
        signature=signature_of(task),
        shape=" ".join(cells["programs"]),
        paths=" ".join(sorted(cells["paths"])),
        functions=" ".join(sorted(cells["functions"])),
        identity=_identity(task),
        repeated=False,
        new_shape=False,
        new_paths=0,
        typed_inputs=behaviour and behaviour.inputs,
        behaviour=behaviour and behaviour.cell,
        distinct_outputs=behaviour and behaviour.distinct_outputs,
        same_output_rate=behaviour and behaviour.same_output_rate,
        echo=behaviour and behaviour.echo,
    )


def signature_of(task: Task) -> str:
    """Returns the types of a task's inputs and outputs, e.g. `list[int], str -> bool`."""
    calls = [parse_arguments(pair.input) for pair in task.pairs]
    return signature(calls, [parse_literal(pair.output) for pair in task.pairs])


def _columns(prefix: str, size: Complexity) -> dict[str, Any]:
    return {f"{prefix}_{name}": getattr(size, name) for name in MEASURES}


def cells_of(row: MeasureRow) -> dict[str, list[str]]:
    """Returns what a task covers, by the name of the coverage (docs/reference/METRICS.md)."""
    cells = {
        "programs": [row.shape],
        "paths": row.paths.split(),
        "functions": row.functions.split(),
        "signatures": [row.signature],
    }
    # A task without a behaviour is none that covers nothing: it was not called.
    if row.behaviour is not None:
        cells["behaviours"] = [row.behaviour]
    return cells


def _identity(task: Task) -> str:
    # The verifier has respelled the inputs: equal values are equal texts.
    texts = (
        task.kind,
        find(task.kind).language.fingerprint(task.program),
        task.message,
        *(pair.input for pair in task.pairs),
    )
    return hashed("\0".join(texts))


def by_random(row: MeasureRow) -> bool:
    """Returns whether random inputs solve the task."""
    return row.same_output_rate is not None and row.same_output_rate >= GUESSABLE_RATE


def by_echo(row: MeasureRow) -> bool:
    """Returns whether the output, given as the input, solves the task."""
    return bool(row.echo)


def by_few_outputs(row: MeasureRow) -> bool:
    """Returns whether the program has so few outputs that one of them can be guessed."""
    return row.distinct_outputs is not None and row.distinct_outputs <= FEW_OUTPUTS
