"""The runs of a comparison, the arms that they belong to, and their panels as charts with one curve an arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

from redqueen.analysis.verdict import RunVerdict, verdict
from redqueen.base.intervals import Interval, interval, mean
from redqueen.config import Config
from redqueen.config.keys import keys, unknown_key
from redqueen.errors import UserError
from redqueen.run.recording.metrics import Panel, panels
from redqueen.store.directory import RunDirectory
from redqueen.store.files import damage_of
from redqueen.store.metrics import StepMetrics

BY_RUN = "run"
_RECIPE = "recipe"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """One run with everything that is compared."""

    name: str
    """The last parts of its path that tell it from the others."""
    path: Path
    arm: str
    config: Config
    lines: Sequence[StepMetrics]
    verdict: RunVerdict
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Runs that differ in their seeds only, or in whatever the reader has chosen not to tell apart."""

    name: str
    runs: tuple[ComparedRun, ...]


def runs_of(arms: Sequence[Arm]) -> list[ComparedRun]:
    """Returns the runs of all arms, arm by arm."""
    return list(chain.from_iterable(arm.runs for arm in arms))


def check_arms(paths: Sequence[Path], by: str) -> None:
    """Raises RunError for a path without a run, UserError for an unknown setting or a run that is given twice."""
    if by not in (BY_RUN, _RECIPE) and by not in keys(Config):
        raise UserError(f"--by {by}: {unknown_key(by, keys(Config))} Or write --by recipe")
    if not paths:
        raise UserError("no run is given: name one or more")
    resolved = [path.resolve() for path in paths]
    if len(set(resolved)) < len(resolved):
        raise UserError("a run is given twice")
    for path in paths:
        RunDirectory(path).config()


def arms(paths: Sequence[Path], by: str) -> list[Arm]:
    """Returns the arms in the order of their first runs.

    `by` is "run", where each run is an arm, or a setting, whose value names the arm: "recipe", "population.teachers".
    Raises RunError for a path without a run, UserError for an unknown setting, a run twice or one without a step.
    """
    check_arms(paths, by)
    names = _names([path.resolve() for path in paths])
    grouped: dict[str, list[ComparedRun]] = {}
    for path, name in zip(paths, names, strict=True):
        run = _read(path, name, by)
        grouped.setdefault(run.arm, []).append(run)
    return [Arm(name=name, runs=tuple(runs)) for name, runs in grouped.items()]


def _read(path: Path, name: str, by: str) -> ComparedRun:
    directory = RunDirectory(path)
    config = directory.config()
    lines = directory.metrics()
    if not lines:
        raise UserError(f"{path} has played no step yet: nothing to compare")
    arm = name
    if by != BY_RUN:
        value = attrgetter(by)(config)
        arm = str(value) if by == _RECIPE else f"{by}={value}"
    with damage_of(path):
        return ComparedRun(
            name=name,
            path=path,
            arm=arm,
            config=config,
            lines=lines,
            verdict=verdict(lines),
            panels=panels(lines, directory.own_metrics()),
        )


def _names(paths: Sequence[Path]) -> list[str]:
    """Returns the last part of each path, with as many parts before it as tell them apart."""
    for count in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-count:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


# Seeds are pooled into a mean with its interval.

GAIN = "held-out-gain--mean-of-the-students"
"""The chart that `redqueen.analysis.compare.arms` draws."""


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
