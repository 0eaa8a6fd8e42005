"""The panels of several runs as charts with one curve an arm: seeds are pooled into a mean with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redqueen.analysis.compare.arms import Arm, ComparedRun, runs_of
from redqueen.base.intervals import Interval, interval, mean
from redqueen.run.recording.metrics import Panel

GAIN = "held-out-gain--mean-of-the-students"
"""The chart that `redqueen.analysis.compare.charts` draws."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartQuestion:
    """What a reader of a comparison asks first, with the charts that answer it."""

    key: str
    """The name of its figure."""
    title: str
    charts: tuple[str, ...]


QUESTIONS = (
    ChartQuestion(key="better", title="Is anybody better on held-out problems?", charts=(GAIN,)),
    ChartQuestion(
        key="curriculum",
        title="Is the curriculum richer?",
        charts=("rarefaction-programs--whole-run", "rarefied-paths--in-1000-nodes", "nodes--reached"),
    ),
    ChartQuestion(
        key="health",
        title="Is the run healthy?",
        charts=("valid-rate--all", "contested--all", "solve-rate--mean-of-kinds"),
    ),
)
"""In the order in which terminal, figures and pages answer them."""
# Members of two runs have nothing in common but their names.
_OF_MEMBERS = ("ratings-", "sigma-")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmCurve:
    """One arm's curve: at each step the mean over its runs with a 95 % interval, None where no run has a value."""

    arm: str
    points: tuple[Interval | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One curve of one panel, in all arms."""

    panel: Panel
    """Its words and limits; its curves are those of the first run that has it."""
    label: str
    """Which curve of the panel."""
    steps: tuple[int, ...]
    curves: tuple[ArmCurve, ...]
    along: str = "step"
    """What `steps` counts: "step", or "tasks" where a curve is drawn over numbers of tasks."""

    @property
    def key(self) -> str:
        """A stable name: "solve-rate--mean-of-kinds"."""
        return f"{self.panel.key}--{self.label.replace(' ', '-').replace(',', '')}"

    @property
    def title(self) -> str:
        return f"{self.panel.title}: {self.label}"


def answering(charts: Sequence[Chart]) -> list[tuple[ChartQuestion, list[Chart]]]:
    """Returns the questions that the charts answer, each with its charts."""
    by_key = {chart.key: chart for chart in charts}
    answers = [(question, [by_key[key] for key in question.charts if key in by_key]) for question in QUESTIONS]
    return [(question, shown) for question, shown in answers if shown]


def charts(arms: Sequence[Arm]) -> list[Chart]:
    """Returns a chart for each curve of each panel that some run has, in the order of the panels."""
    runs = runs_of(arms)
    steps = tuple(sorted({step for run in runs for panel in run.panels for step in panel.steps}))
    made: list[Chart] = []
    for panel, label in _curves(runs):
        if panel.key.startswith(_OF_MEMBERS):
            continue
        pooled = [ArmCurve(arm=arm.name, points=_pooled(arm, panel.key, label, steps)) for arm in arms]
        made.append(Chart(panel=panel, label=label, steps=steps, curves=with_values(pooled)))
    return made


def with_values(curves: Sequence[ArmCurve]) -> tuple[ArmCurve, ...]:
    """Returns the curves that have a value somewhere."""
    return tuple(curve for curve in curves if set(curve.points) - {None})


def quarter(run: ComparedRun, panel: str, label: str, *, last: bool) -> float | None:
    """Returns the mean of a curve over the first or the last quarter of a run's steps, None without a value."""
    values = [value for _, value in _points(run, panel, label)]
    size = max(1, len(run.lines) // 4)
    return mean(values[-size:] if last else values[:size])


def _curves(runs: Sequence[ComparedRun]) -> list[tuple[Panel, str]]:
    """Returns every panel with every label, each once, in the order of the run that has most of them."""
    curves: dict[tuple[str, str], tuple[Panel, str]] = {}
    for run in sorted(runs, key=lambda each: -len(each.panels)):
        for panel in run.panels:
            for label in panel.curves:
                curves.setdefault((panel.key, label), (panel, label))
    return list(curves.values())


def _pooled(arm: Arm, panel: str, label: str, steps: Sequence[int]) -> tuple[Interval | None, ...]:
    by_step: dict[int, list[float]] = {}
    for run in arm.runs:
        for step, value in _points(run, panel, label):
            if value is not None:
                by_step.setdefault(step, []).append(value)
    return tuple(interval(by_step.get(step, [])) for step in steps)


def _points(run: ComparedRun, panel: str, label: str) -> list[tuple[int, float | None]]:
    """Returns a curve's steps and values. A panel of held-out scores has only the steps that measured them."""
    for candidate in run.panels:
        if candidate.key == panel and label in candidate.curves:
            return list(zip(candidate.steps, candidate.curves[label], strict=True))
    return []


KEY = "held-out-gain"
_NOTE = (
    "Right answers on held-out problems, on which no member is trained or selected: percentage points from the start "
    "of the run, as the mean of its living students. An interval over seeds leaves out what all seeds share: the "
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
