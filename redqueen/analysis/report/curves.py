"""The course of a run as a figure: valid, solved and contested shares and mean rewards, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from redqueen.analysis.hues import HUES

# In a run of at most so many steps each step has a marker.
_MARKED = 20

Lines = Sequence[Mapping[str, Any]]
Series = Sequence[float | None]


def draw(lines: Lines) -> Figure:
    """Returns three panels over the steps played, from the lines of metrics.jsonl; an unknown value leaves a gap."""
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    shares, contested, rewards = figure.subplots(1, 3)
    steps = [line["step"] for line in lines]

    def column(name: str) -> Series:
        return [line[name] for line in lines]

    _plot(
        shares,
        "proposals and attempts (in sample)",
        steps,
        {
            "valid": column("valid_rate"),
            "new": column("novel_rate"),
            "solved": column("solve_rate"),
        },
    )
    # Kinds are apart here: their difficulties differ, and one kind that is always or never solved pays nothing.
    kinds = {kind: _contested_column(lines, kind) for kind in lines[0]["tasks_by_kind"]}
    _plot(contested, "contested tasks (in sample)", steps, kinds)
    _plot(
        rewards,
        "mean reward (in sample)",
        steps,
        {"teachers": column("teacher_reward"), "students": column("student_reward")},
    )
    # Limits are fixed to what is possible: a curve that hardly moves looks flat, in every run alike.
    for axes in (shares, contested):
        axes.set_ylim(-0.03, 1.03)
    rewards.set_ylim(-1.05, 1.05)
    rewards.axhline(0, color="#cccccc", lw=1, zorder=0)
    return figure


def _plot(axes: Axes, title: str, steps: Sequence[int], series: Mapping[str, Series]) -> None:
    # A curve of one step is no line, and one with gaps can have single points: markers show both.
    mark = "o" if len(steps) <= _MARKED else ""
    for hue, (name, column) in zip(HUES, series.items(), strict=False):
        values = [float("nan") if value is None else value for value in column]
        axes.plot(steps, values, color=hue, lw=1.6, marker=mark, ms=3.5, label=name)
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["right", "top"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, ncols=3, loc="upper left", bbox_to_anchor=(0, -0.18))


def _contested_column(lines: Lines, kind: str) -> Series:
    """Returns the share of contested tasks of this kind, step by step."""
    return [_contested(line, kind) for line in lines]


def _contested(line: Mapping[str, Any], kind: str) -> float | None:
    """Returns the share of the step's tasks of this kind with 0 < rho < 1."""
    tasks = line["tasks_by_kind"][kind]
    return line["contested_by_kind"][kind] / tasks if tasks else None
