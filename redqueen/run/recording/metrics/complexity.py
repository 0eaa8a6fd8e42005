"""Metrics: how large the programs of the tasks are, as written and without code that can never run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import fmean

from redqueen.base.intervals import mean
from redqueen.method.played_step import ScoredProposal
from redqueen.records import Kind
from redqueen.run.recording.measures import MEASURES, MeasuredTask
from redqueen.run.recording.metrics.metric import (
    Column,
    CountedStep,
    Curves,
    CurvesOf,
    Line,
    MetricChart,
    Metrics,
    at,
    by_key,
    part,
    standardised,
)
from redqueen.tasks.kinds import find_or_plain

METRICS = Metrics("complexity")


def mean_size(lines: Sequence[Line], which: str, measure: str) -> Column:
    """Returns a measure of the "written" or "reached" programs: the mean of the kinds whose programs teachers write."""
    # Programs with tests, and those of some languages, have no syntax tree.
    measured = {
        kind
        for line in lines
        for kind, sizes in (at(line, "complexity_by_kind") or {}).items()
        # A program that was given to the teacher says nothing about it.
        if sizes is not None and not find_or_plain(kind).starts_from_program
    }
    return tuple(_mean_of_kinds(line, measured, which, measure) for line in lines)


def _mean_of_kinds(line: Line, kinds: Collection[Kind], which: str, measure: str) -> float | None:
    # With one kind missing the mean would jump to the other's level.
    return standardised({kind: at(line, "complexity_by_kind", kind, which, measure) for kind in kinds}, kinds)


def _twice(measure: str) -> CurvesOf:
    def curves(lines: Sequence[Line], _: str) -> Curves:
        return {"as written": mean_size(lines, "written", measure), "reached": mean_size(lines, "reached", measure)}

    return curves


def _chart(measure: str, title: str, unit: str) -> MetricChart:
    note = (
        "Mean of the kinds whose programs teachers write, in the valid tasks of the step. Reached is what is left "
        "without code that can never run."
    )
    return MetricChart(measure.replace("_", "-"), title, note, _twice(measure), unit)


@METRICS.add(
    "",
    _chart("nodes", "Nodes of the syntax tree", "nodes"),
    _chart("depth", "Depth of the syntax tree", "levels"),
    _chart("cyclomatic", "Cyclomatic complexity", "paths"),
    _chart("lines", "Lines of code", "lines"),
    _chart("variables", "Variables", "variables"),
    _chart("node_types", "Different types of nodes", "types"),
)
def complexity_by_kind(step: CountedStep) -> dict[Kind, dict[str, dict[str, float]] | None]:
    """Mean of each measure of complexity, `written` and `reached`. The programs of code_f are given to the teacher."""
    return step.by_kind(step.measured, _complexity)


def _complexity(tasks: Sequence[MeasuredTask]) -> dict[str, dict[str, float]] | None:
    if not tasks:
        return None
    sizes: dict[str, dict[str, float]] = {}
    for which in ("written", "reached"):
        sizes[which] = {name: fmean(getattr(task.row, f"{which}_{name}") for task in tasks) for name in MEASURES}
    return sizes


@METRICS.drawn(
    "share",
    "dead-code",
    "Code that can never run",
    "Mean over the valid tasks of the share of a program's nodes that can never run.",
    by_key,
)
def dead_code_by_kind(step: CountedStep) -> dict[Kind, float | None]:
    """Mean share of dead code."""
    return step.by_kind(step.measured, _dead_code)


def _dead_code(tasks: Sequence[MeasuredTask]) -> float | None:
    return mean(1 - task.row.reached_nodes / task.row.written_nodes for task in tasks)


@METRICS.add(
    "values",
    MetricChart(
        "input-size",
        "Size of a task's inputs",
        "Mean size of the inputs of the valid tasks (docs/reference/METRICS.md).",
        part("input"),
    ),
    MetricChart(
        "output-size",
        "Size of a task's outputs",
        "Mean size of the outputs of the valid tasks (docs/reference/METRICS.md).",
        part("output"),
    ),
)
def sizes_by_kind(step: CountedStep) -> dict[Kind, dict[str, float] | None]:
    """Mean sizes of `input` and `output`."""
    return step.by_kind(step.measured, _sizes)


def _sizes(tasks: Sequence[MeasuredTask]) -> dict[str, float] | None:
    if not tasks:
        return None
    return {
        "input": fmean(task.row.input_size for task in tasks),
        "output": fmean(task.row.output_size for task in tasks),
    }


@METRICS.drawn(
    "lines",
    "lines-by-kind",
    "Lines of a program by kind",
    "Mean lines of the valid tasks' programs as written. The programs of code_f are given to the teacher.",
    by_key,
)
def lines_by_kind(step: CountedStep) -> dict[Kind, float | None]:
    """Mean lines of the programs, with comments and blank lines."""
    return step.by_kind(step.valid, _lines)


def _lines(valid: Sequence[ScoredProposal]) -> float | None:
    tasks = [proposal.proposed.task for proposal in valid]
    return mean(len(task.program.splitlines()) for task in tasks if task is not None)
