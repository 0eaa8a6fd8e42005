"""How far the students of the arms are above their start on held-out problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from redqueen.analysis.compare.arms import Arm, ComparedRun, runs_of
from redqueen.analysis.compare.charts import ArmCurve, Chart, with_values
from redqueen.base.intervals import interval, mean
from redqueen.run.recording.metrics import Panel

KEY = "held-out-gain"
_NOTE = (
    "Right answers on held-out problems, which nobody is trained or selected by: percentage points from the start of "
    "the run, as the mean of its living students. An interval over seeds leaves out what all seeds share: the "
    "problems, and the start's one answer to each."
)


_OTHER = (
    "The runs were asked different held-out problems, so their gains are not paired: game.kinds, evals or "
    "league.student_fitness are not the same, or the version is not."
)


def mean_gain(scores: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Returns how far the students of a step are above the start on average, in points; None without any."""
    gain = mean(score["gain"] for score in scores.values())
    return None if gain is None else 100 * gain


def other_problems(arms: Sequence[Arm]) -> list[str]:
    """Returns a line if the runs were not all asked the same held-out problems, otherwise nothing."""
    scores = [line.get("held_out") or {} for run in runs_of(arms) for line in run.lines]
    # Runs of former versions do not say what they were asked.
    asked = {score["asked"] for score in scores if "asked" in score}
    return [_OTHER] * (len(asked) > 1)


def gain_charts(arms: Sequence[Arm]) -> list[Chart]:
    """Returns the chart of the arms' gains; none if no run measured held-out problems."""
    gains = {run.name: _gains(run) for run in runs_of(arms)}
    steps = tuple(sorted({step for by_step in gains.values() for step in by_step}))
    if not steps:
        return []
    panel = Panel(
        key=KEY,
        section="dynamics",
        title="Gain on held-out problems",
        unit="points",
        note=" ".join([_NOTE, *other_problems(arms)]),
        low=None,
        high=None,
        steps=steps,
        curves={},
    )
    curves: list[ArmCurve] = []
    for arm in arms:
        by_run = [gains[run.name] for run in arm.runs]
        points = [interval([by_step[step] for by_step in by_run if step in by_step]) for step in steps]
        curves.append(ArmCurve(arm=arm.name, points=tuple(points)))
    return [Chart(panel=panel, label="mean of the students", steps=steps, curves=with_values(curves))]


def _gains(run: ComparedRun) -> dict[int, float]:
    """Returns the mean gain by step. What all started from is the start, by definition."""
    gains: dict[int, float] = {}
    for line in run.lines:
        gain = mean_gain((line.get("held_out") or {}).get("students") or {})
        if gain is not None:
            gains[line["step"]] = gain
    return {0: 0.0, **gains} if gains else {}
