"""Metrics: what the tasks of the run have covered, and how much of it is new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from redqueen.base.intervals import mean
from redqueen.method.played_step import ScoredProposal
from redqueen.method.seeds import is_fixed
from redqueen.records import Kind
from redqueen.run.recording.measures import by_echo, by_few_outputs, by_random
from redqueen.run.recording.metrics.metric import (
    CountedStep,
    Curves,
    CurvesOf,
    Line,
    MetricChart,
    Metrics,
    at,
    column,
    names,
    one,
    several,
    with_kinds,
)
from redqueen.tasks.kinds import find

METRICS = Metrics("coverage")

_COUNTED = (
    ("programs", "programs up to names and constants"),
    ("paths", "paths of syntax"),
    ("functions", "functions of the library"),
    ("signatures", "types of inputs and outputs"),
    ("behaviours", "behaviours on fixed inputs"),
)


def _charts(cell: str, words: str) -> list[MetricChart]:
    """Returns the charts of one coverage, whose cells are called `words`."""
    return [
        MetricChart(
            f"covered-{cell}",
            f"Different {words} so far",
            "In all valid tasks since the first step. It grows with the number of tasks: compare runs by the next "
            "chart.",
            _cells(cell),
        ),
        MetricChart(
            f"rarefied-{cell}",
            f"Different {words} since step 1, rarefied",
            "The expected number in equally many tasks, drawn from all since the first step; and in as many tasks "
            "as have so many nodes, which is the control for longer programs.",
            _rarefied(cell, rarefied="tasks", rarefied_by_nodes="nodes"),
        ),
        MetricChart(
            f"rarefied-new-{cell}",
            f"Different {words} that no seed has, since step 1, rarefied",
            "The expected number that no seed program has, in equally many tasks, drawn from all since the first step.",
            _rarefied(cell, rarefied_beyond_seeds="tasks"),
        ),
    ]


def _cells(cell: str) -> CurvesOf:
    def curves(lines: Sequence[Line], name: str) -> Curves:
        return {
            "all": column(lines, name, cell, "cells"),
            "that no seed has": column(lines, name, cell, "beyond_seeds"),
        }

    return curves


def _rarefied(cell: str, **units: str) -> CurvesOf:
    """Returns one curve for each number of tasks or nodes that a key of `units` has."""

    def curves(lines: Sequence[Line], name: str) -> Curves:
        made: Curves = {}
        for key, unit in units.items():
            for level in names(at(line, name, cell, key) or {} for line in lines):
                made[f"in {int(level):,} {unit}"] = column(lines, name, cell, key, level)
        return made

    return curves


@METRICS.add("number", *chain.from_iterable(_charts(cell, words) for cell, words in _COUNTED))
def coverage(step: CountedStep) -> dict[str, dict[str, Any]]:
    """By coverage: `tasks`, `cells`, `beyond_seeds`; by number of tasks or nodes `rarefied`, `rarefied_beyond_seeds`,
    `rarefied_by_nodes`.
    """
    return {name: asdict(covered) for name, covered in step.record.measures.covered.items()}


@METRICS.drawn(
    "share",
    "new-shapes",
    "New and repeated programs",
    "Valid tasks whose program, up to names and constants, neither a seed nor an earlier task of the run has; "
    "and those that repeat program, inputs and message of an earlier task.",
    several(new="new_shape_rate", repeated="repeated_rate"),
)
def new_shape_rate(step: CountedStep) -> float | None:
    """Tasks with a new shape / tasks."""
    return mean(task.row.new_shape for task in step.measured)


@METRICS.add("share")
def repeated_rate(step: CountedStep) -> float | None:
    """Repeated tasks / tasks."""
    return mean(task.row.repeated for task in step.measured)


@METRICS.drawn(
    "paths",
    "new-paths",
    "New paths of syntax a task",
    "Mean number of a task's paths that neither a seed nor an earlier task of the run has.",
    one("paths"),
)
def new_paths(step: CountedStep) -> float | None:
    """Mean number of a task's paths that neither a seed nor an earlier task has."""
    return mean(task.row.new_paths for task in step.measured)


@METRICS.drawn(
    "paths per node",
    "paths-per-node",
    "Paths of syntax per node",
    "Different paths of a program over its nodes. It falls where programs grow by repeating themselves.",
    one("paths per node"),
)
def paths_per_node(step: CountedStep) -> float | None:
    """Mean of different paths / nodes, reached."""
    return mean(len(task.row.paths.split()) / task.row.reached_nodes for task in step.measured)


def _ways(lines: Sequence[Line], name: str) -> Curves:
    return {
        "in any way": column(lines, name, "rate"),
        "by random inputs": column(lines, name, "by_random"),
        "by echoing the output": column(lines, name, "by_echo"),
        "few outputs": column(lines, name, "by_few_outputs"),
        "in the text": column(lines, "by_text"),
    }


@METRICS.drawn(
    "share",
    "guessable",
    "Tasks that can be guessed",
    "Of the novel tasks: at least 40 % of random inputs give their output, the output given as the input gives "
    "itself, or the program gives at most three outputs. And of all valid tasks those whose program or message has the "
    "answer in it as text.",
    _ways,
)
def guessable(step: CountedStep) -> dict[str, float | None]:
    """Of the `tasks` that were called the shares that can be guessed: `by_random`, `by_echo`, `by_few_outputs`, in any
    way (`rate`).
    """
    called = [task.row for task in step.measured if task.row.typed_inputs is not None]
    return {
        "tasks": len(called),
        "rate": mean(by_random(row) or by_echo(row) or by_few_outputs(row) for row in called),
        "by_random": mean(map(by_random, called)),
        "by_echo": mean(map(by_echo, called)),
        "by_few_outputs": mean(map(by_few_outputs, called)),
    }


@METRICS.add("share")
def by_text(step: CountedStep) -> float | None:
    """Valid tasks whose program, or for code_f the message, holds the answer as text / valid tasks. The `rate` of
    `guessable` leaves it out.
    """
    tasks = [proposal.proposed.task for proposal in step.valid]
    return mean(find(task.kind).told(task) for task in tasks if task is not None)


def _novel_rate(valid: Sequence[ScoredProposal]) -> float | None:
    return mean(proposal.novel for proposal in valid)


@METRICS.drawn(
    "share",
    "new-ideas",
    "Tasks with a new idea",
    "Valid tasks whose program, up to names and constants, neither a seed nor the task bank had; for code_f it "
    "is the message.",
    with_kinds("all"),
)
def novel_rate(step: CountedStep) -> float | None:
    """Novel tasks / valid tasks."""
    return _novel_rate(step.valid)


@METRICS.add("share")
def novel_rate_by_kind(step: CountedStep) -> dict[Kind, float | None]:
    """The same by kind."""
    return step.by_kind(step.valid, _novel_rate)


@METRICS.drawn(
    "share",
    "seed-references",
    "Seed programs among the references",
    "Of the programs that teachers are shown, the share that are seeds and not the run's own tasks.",
    one("seeds"),
)
def seed_references(step: CountedStep) -> float | None:
    """Seeds / references that teachers were shown."""
    references = chain.from_iterable(proposal.proposed.references for proposal in step.proposals)
    return mean(is_fixed(task) for task in references)


@METRICS.drawn(
    "tasks",
    "task-bank",
    "Tasks in the task bank",
    "The seeds and the valid tasks that teachers can be shown as references.",
    one("tasks"),
)
def task_bank_size(step: CountedStep) -> int:
    """Tasks in the task bank."""
    return step.record.task_bank_size
