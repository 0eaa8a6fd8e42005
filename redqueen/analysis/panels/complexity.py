"""Panels: how large the programs of the tasks are, as written and without code that can never run."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from redqueen.analysis.panels.panel import Column, Curves, Line, Panel, at, by_key, each, names, panel, share
from redqueen.kinds import find_or_plain

_MEASURES = (
    ("nodes", "Nodes of the syntax tree", "nodes"),
    ("depth", "Depth of the syntax tree", "levels"),
    ("cyclomatic", "Cyclomatic complexity", "paths"),
    ("lines", "Lines of code", "lines"),
    ("variables", "Variables", "variables"),
    ("node_types", "Different types of nodes", "types"),
)
_NOTE = (
    "Mean of the kinds whose programs teachers write, in the valid tasks of the step. Reached is what is left without "
    "code that can never run."
)


def complexity(lines: Sequence[Line]) -> list[Panel]:
    """Returns the panels of the section "complexity"."""
    made = [
        panel(lines, name.replace("_", "-"), "complexity", title, unit, _NOTE, _twice(lines, name), low=0)
        for name, title, unit in _MEASURES
    ]
    return [
        *made,
        share(
            lines,
            "dead-code",
            "complexity",
            "Code that can never run",
            "Mean over the valid tasks of the share of a program's nodes that can never run.",
            by_key(lines, "dead_code_by_kind"),
        ),
        panel(
            lines,
            "input-size",
            "complexity",
            "Size of a task's inputs",
            "values",
            "Mean size of the inputs of the valid tasks (docs/METRICS.md).",
            _of_kinds(lines, "sizes_by_kind", "input"),
            low=0,
        ),
        panel(
            lines,
            "output-size",
            "complexity",
            "Size of a task's outputs",
            "values",
            "Mean size of the outputs of the valid tasks (docs/METRICS.md).",
            _of_kinds(lines, "sizes_by_kind", "output"),
            low=0,
        ),
        panel(
            lines,
            "lines-run",
            "complexity",
            "Different lines that ran",
            "lines",
            "Mean number of different lines that ran on a task's own inputs, of the tasks whose lines were counted.",
            _of_kinds(lines, "executed_by_kind", "lines"),
            low=0,
        ),
        panel(
            lines,
            "line-events",
            "complexity",
            "Lines executed, with repetitions",
            "lines",
            "Mean number of times that a line began on a task's own inputs, up to 20,000 a task: a loop of n rounds "
            "has n times its lines.",
            _of_kinds(lines, "executed_by_kind", "events"),
            low=0,
        ),
        panel(
            lines,
            "lines-by-kind",
            "complexity",
            "Lines of a program by kind",
            "lines",
            "Mean lines of the valid tasks' programs as written. The programs of code_f are given to the teacher.",
            by_key(lines, "lines_by_kind"),
            low=0,
        ),
    ]


def mean_size(lines: Sequence[Line], part: str, measure: str) -> Column:
    """Returns a measure of `part`, "written" or "reached": the mean of the kinds whose programs teachers write."""
    return each(lines, lambda line: _mean_of_kinds(line, part, measure))


def _mean_of_kinds(line: Line, part: str, measure: str) -> float | None:
    # A program that was given to the teacher says nothing about it.
    kinds = [kind for kind in at(line, "complexity_by_kind") or {} if not find_or_plain(kind).starts_from_program]
    values = [at(line, "complexity_by_kind", kind, part, measure) for kind in kinds]
    known = [value for value in values if value is not None]
    # With one kind missing the mean would jump to the other's level.
    return fmean(known) if known and len(known) == len(values) else None


def _twice(lines: Sequence[Line], measure: str) -> Curves:
    return {
        "as written": mean_size(lines, "written", measure),
        "reached": mean_size(lines, "reached", measure),
    }


def _of_kinds(lines: Sequence[Line], key: str, part: str) -> Curves:
    kinds = names(line.get(key) or {} for line in lines)
    return {kind: tuple(at(line, key, kind, part) for line in lines) for kind in kinds}
