"""Panels: what the tasks of the run have covered, and how much of it is new."""

from __future__ import annotations

from collections.abc import Sequence

from redqueen.analysis.panels.panel import Curves, Line, Panel, at, by_key, column, names, panel, share

_COUNTED = (
    ("programs", "programs up to names and constants"),
    ("paths", "paths of syntax"),
    ("functions", "functions of the library"),
    ("signatures", "types of inputs and outputs"),
    ("behaviours", "behaviours on fixed inputs"),
)


def coverage(lines: Sequence[Line]) -> list[Panel]:
    """Returns the panels of the section "coverage"."""
    made: list[Panel] = []
    for name, words in _COUNTED:
        made += [
            panel(
                lines,
                f"covered-{name}",
                "coverage",
                f"Different {words} so far",
                "number",
                "In all valid tasks since the first step. It grows with the number of tasks: compare runs by the next "
                "chart.",
                _cells(lines, name),
                low=0,
            ),
            panel(
                lines,
                f"rarefied-{name}",
                "coverage",
                f"Different {words}, rarefied",
                "number",
                "The expected number in equally many tasks, drawn from all since the first step; and in as many tasks "
                "as have so many nodes, which is the control for longer programs.",
                _rarefied(lines, name, (("rarefied", "tasks"), ("rarefied_by_nodes", "nodes"))),
                low=0,
            ),
            panel(
                lines,
                f"rarefied-new-{name}",
                "coverage",
                f"Different {words} that no seed has, rarefied",
                "number",
                "The expected number that no seed program has, in equally many tasks, drawn from all since the "
                "first step.",
                _rarefied(lines, name, (("rarefied_beyond_seeds", "tasks"),)),
                low=0,
            ),
        ]
    return [*made, *_shares(lines), _guessable(lines), *_novelty(lines)]


def _shares(lines: Sequence[Line]) -> list[Panel]:
    return [
        share(
            lines,
            "new-shapes",
            "coverage",
            "New and repeated programs",
            "Valid tasks whose program, up to names and constants, neither a seed nor an earlier task of the run has; "
            "and those that repeat program, inputs and message of an earlier task.",
            {"new": column(lines, "new_shape_rate"), "repeated": column(lines, "repeated_rate")},
        ),
        panel(
            lines,
            "new-paths",
            "coverage",
            "New paths of syntax a task",
            "paths",
            "Mean number of a task's paths that neither a seed nor an earlier task of the run has.",
            {"paths": column(lines, "new_paths")},
            low=0,
        ),
        panel(
            lines,
            "paths-per-node",
            "coverage",
            "Paths of syntax per node",
            "paths per node",
            "Different paths of a program over its nodes. It falls where programs grow by repeating themselves.",
            {"paths per node": column(lines, "paths_per_node")},
            low=0,
        ),
    ]


def _guessable(lines: Sequence[Line]) -> Panel:
    ways = (
        ("in any way", "rate"),
        ("by random inputs", "by_random"),
        ("by echoing the output", "by_echo"),
        ("few outputs", "by_few_outputs"),
    )
    return share(
        lines,
        "guessable",
        "coverage",
        "Tasks that can be guessed",
        "Of the novel tasks: at least 40 % of random inputs give their output, the output given as the input gives "
        "itself, or the program gives at most three outputs.",
        {label: tuple(at(line, "guessable", key) for line in lines) for label, key in ways},
    )


def _novelty(lines: Sequence[Line]) -> list[Panel]:
    return [
        share(
            lines,
            "new-ideas",
            "coverage",
            "Tasks with a new idea",
            "Valid tasks whose program, up to names and constants, neither a seed nor the task bank had; for code_f it "
            "is the message.",
            {"all": column(lines, "novel_rate"), **by_key(lines, "novel_rate_by_kind")},
        ),
        share(
            lines,
            "seed-references",
            "coverage",
            "Seed programs among the references",
            "Of the programs that teachers are shown, the share that are seeds and not the run's own tasks.",
            {"seeds": column(lines, "seed_references")},
        ),
        panel(
            lines,
            "task-bank",
            "coverage",
            "Tasks in the task bank",
            "tasks",
            "The seeds and the valid tasks that teachers can be shown as references.",
            {"tasks": column(lines, "task_bank_size")},
            low=0,
        ),
    ]


def _cells(lines: Sequence[Line], name: str) -> Curves:
    return {
        "all": tuple(at(line, "coverage", name, "cells") for line in lines),
        "that no seed has": tuple(at(line, "coverage", name, "beyond_seeds") for line in lines),
    }


def _rarefied(lines: Sequence[Line], name: str, keys: Sequence[tuple[str, str]]) -> Curves:
    """Returns one curve for each number of tasks or nodes that one of `keys`, each with its unit, has."""
    curves: Curves = {}
    for key, unit in keys:
        for level in names(at(line, "coverage", name, key) or {} for line in lines):
            curves[f"in {int(level):,} {unit}"] = tuple(at(line, "coverage", name, key, level) for line in lines)
    return curves
