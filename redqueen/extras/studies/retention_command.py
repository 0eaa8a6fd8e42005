"""`redqueen retention`: what children keep of their parents' skill, operator by operator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from rich.table import Table

from redqueen.analysis.drawing import check_figure, write_figure
from redqueen.analysis.replay import load_step, open_replay
from redqueen.base.intervals import Interval, interval, interval_text, paired
from redqueen.extras.studies.retention import COPY, MEAN, RetentionPlan, RetentionTrial, retention, slots_needed
from redqueen.run.recording.lines import Lines
from redqueen.run.recording.plain_console import PlainConsole, TaskReporter, mean_and_deviation, table_console
from redqueen.run.session import fit
from redqueen.store.allowed import Permissions, playable
from redqueen.store.directory import RunDirectory

# What the trials of a retention study say about each operator.

Answer = Literal["yes", "no", "worse", "-"]


@dataclass(frozen=True, slots=True)
class Summary:
    """One operator over all its trials. Intervals are of 95 %, spreads are standard deviations."""

    operator: str
    trials: int
    """The number of its children."""
    kl: float
    """Mean divergence at birth, in nats per token."""
    kl_spread: float | None
    birth: Interval
    """Reward at birth minus the parent's."""
    regained: float
    """Share of the children that reached the parent's level."""
    updates: float
    """Mean number of updates until then. A child that never reached it counts as all updates of the plan, so the mean
    is then a lower bound."""
    updates_spread: float | None
    late: Interval
    """Reward minus the parent's, mean over the measurements in the second half of the updates."""
    over_copy: Interval | None
    """`late` minus that of `copy_parent` of the same seed; None without that control, and for itself."""
    over_mean: Interval | None
    """`late` minus that of `linear_mean` of the same seed; None without that control, and for itself."""

    @property
    def beats_copy(self) -> Answer:
        return answer(self.over_copy)

    @property
    def beats_mean(self) -> Answer:
        return answer(self.over_mean)


def answer(over: Interval | None) -> Answer:
    """Says whether an interval of differences is above zero ("yes"), below ("worse"), or shows nothing ("no").

    "-" where there is no comparison, or only one seed.
    """
    if over is None or over.low is None:
        return "-"
    if over.above:
        return "yes"
    return "worse" if over.below else "no"


def summarise(trials: Sequence[RetentionTrial], plan: RetentionPlan) -> list[Summary]:
    """Returns one summary for each operator, in the order of the trials."""
    by_operator: dict[str, list[RetentionTrial]] = {}
    for trial in trials:
        by_operator.setdefault(trial.operator, []).append(trial)
    # Children of the same seed had the same tasks and random numbers, so they are compared in pairs.
    late = {name: {t.seed: _late(t, plan) for t in children} for name, children in by_operator.items()}
    return [_summary(name, children, plan, late) for name, children in by_operator.items()]


def _summary(
    name: str, children: Sequence[RetentionTrial], plan: RetentionPlan, late: dict[str, dict[int, float]]
) -> Summary:
    # A child that never reached the level counts as the longest time that was watched. Leaving it out would favour an
    # operator whose few survivors are quick.
    updates = [float(plan.updates if t.regained is None else t.regained) for t in children]

    def over(control: str) -> Interval | None:
        return None if name == control else paired(late[name], late.get(control, {}))

    return Summary(
        operator=name,
        trials=len(children),
        kl=fmean(t.kl for t in children),
        kl_spread=_spread([t.kl for t in children]),
        birth=_interval([t.rewards[0] - t.level for t in children]),
        regained=fmean(t.regained is not None for t in children),
        updates=fmean(updates),
        updates_spread=_spread(updates),
        late=_interval(list(late[name].values())),
        over_copy=over(COPY),
        over_mean=over(MEAN),
    )


def _late(trial: RetentionTrial, plan: RetentionPlan) -> float:
    """Returns the mean reward in the second half of the updates, minus the parent's."""
    # A single measurement is noisy, and the first ones show the birth rather than where a child ends up.
    half = [r for u, r in zip(plan.measured, trial.rewards, strict=True) if 2 * u > plan.updates]
    return fmean(half) - trial.level


def _interval(values: Sequence[float]) -> Interval:
    """Returns the interval of at least one value."""
    result = interval(values)
    assert result is not None
    return result


def _spread(values: Sequence[float]) -> float | None:
    return stdev(values) if len(values) > 1 else None


# The retention study as a figure: how each operator's children come back to their parent's level.

_COLUMNS = 4
_OWN = "#0072B2"
_COPY = "#333333"
_MEAN = "#D55E00"


def draw(trials: Sequence[RetentionTrial], plan: RetentionPlan) -> Figure:
    """Returns a figure with a panel for each operator: each child's reward minus the parent's, and their mean.

    The means of `copy_parent` and of `linear_mean` are in every panel: an operator has to beat them.
    """
    by_operator: dict[str, list[RetentionTrial]] = {}
    for trial in trials:
        by_operator.setdefault(trial.operator, []).append(trial)
    names = list(by_operator)
    means = {name: _mean(children) for name, children in by_operator.items()}
    # Panels share both axes, so that heights can be compared between operators. The last row may be incomplete; its
    # empty panels are hidden below.
    lines = -(-len(names) // _COLUMNS)
    figure = Figure(figsize=(12, 0.9 + 2.5 * lines), layout="constrained")
    panels = list(figure.subplots(lines, _COLUMNS, sharex=True, sharey=True, squeeze=False).flat)
    for axes, name in zip(panels, names, strict=False):
        _panel(axes, by_operator[name], plan)
        for control, hue in ((COPY, _COPY), (MEAN, _MEAN)):
            if control in means and control != name:
                axes.plot(plan.measured, means[control], color=hue, lw=1.2, ls="--", label=control)
        axes.plot(plan.measured, means[name], color=_OWN, lw=2, label="mean")
        kl = fmean(trial.kl for trial in by_operator[name])
        axes.set_title(f"{name}  (KL {kl:.3g})", fontsize=10)
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    figure.supxlabel("updates after birth", fontsize=10)
    figure.supylabel("reward - parent's reward, same reserved tasks", fontsize=10)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=5, fontsize=9, frameon=False)
    return figure


def _panel(axes: Axes, children: Sequence[RetentionTrial], plan: RetentionPlan) -> None:
    axes.axhline(0, color="#999999", lw=0.8)
    for i, trial in enumerate(children):
        values = _differences(trial)
        # a label that begins with "_" is not in the legend
        axes.plot(plan.measured, values, color=_OWN, lw=0.7, alpha=0.4, label="one child" if i == 0 else "_")
    if len(children) > 1:
        middle = _mean(children)
        spread = [stdev(values) for values in _by_measurement(children)]
        low = [m - s for m, s in zip(middle, spread, strict=True)]
        high = [m + s for m, s in zip(middle, spread, strict=True)]
        axes.fill_between(plan.measured, low, high, color=_OWN, alpha=0.12, lw=0, label="± 1 standard deviation")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["right", "top"]].set_visible(False)


def _mean(children: Sequence[RetentionTrial]) -> list[float]:
    return [fmean(values) for values in _by_measurement(children)]


def _by_measurement(children: Sequence[RetentionTrial]) -> list[tuple[float, ...]]:
    """Returns, for each of `RetentionPlan.measured`, the differences of all children from their parents."""
    return list(zip(*map(_differences, children), strict=True))


def _differences(trial: RetentionTrial) -> list[float]:
    """Returns the child's rewards minus its parent's."""
    return [reward - trial.level for reward in trial.rewards]


NOTES = """\
kl: nats per token at birth, parent to child, on the parent's own answers. All is measured on reserved
tasks (held out), of which no child learns. birth, late: reward minus the parent's, at birth and in the second half of
the updates. updates: until the parent's reward was reached again; >= if some children never did within the {updates}
(the paper: 10 to 20). ± is a standard deviation, [..] a 95 % interval over the {trials} children. beats copy, beats
mean: whether the interval of the difference of late from that control's is above 0 (yes), below (worse) or around it
(no: nothing shown); - without a comparison, or with one child only."""


def run_retention(
    run: Path, step: int | None, plan: RetentionPlan, allowed: Permissions, *, as_json: bool, figure: Path | None
) -> int:
    """Runs the experiment and prints its table; returns the exit code.

    Raises UserError if the run cannot be read or the figure cannot be written.
    """
    check_figure(figure)
    directory = RunDirectory(run)
    config = playable(directory, allowed)
    saved = load_step(directory, step)
    # Progress goes to standard error: --json is for pipes.
    progress = PlainConsole(stderr=True)
    # A study may hold more members than the run did, so memory is checked for its own number of slots.
    config = fit(config, slots_needed(saved), Lines(progress))
    with open_replay(config, saved, slots_needed(saved)) as replay, TaskReporter(progress) as report:
        trials = retention(replay, saved, plan, report)
    summaries = summarise(trials, plan)
    if figure is not None:
        write_figure(draw(trials, plan), figure)
    if as_json:
        print(json.dumps(document(run, saved.step, plan, summaries, trials), indent=1))
    else:
        console = table_console()
        console.print(table(summaries))
        console.print(NOTES.format(updates=plan.updates, trials=len(trials) // len(summaries)), soft_wrap=True)
    return 0


def table(summaries: Sequence[Summary]) -> Table:
    """Returns a table with one row for each operator."""
    rows = Table(box=None, pad_edge=False)
    for name in ("operator", "kl", "birth", "regained", "updates", "late", "late - copy", "late - mean"):
        rows.add_column(name, justify="left" if name == "operator" else "right", no_wrap=True)
    rows.add_column("beats copy")
    rows.add_column("beats mean")
    for s in summaries:
        # A child that never reached its parent counts as all updates, so the mean is a lower bound.
        bound = ">= " if s.regained < 1 else ""
        rows.add_row(
            s.operator,
            mean_and_deviation(s.kl, s.kl_spread, 3),
            interval_text(s.birth),
            f"{s.regained:.0%}",
            bound + mean_and_deviation(s.updates, s.updates_spread, 1),
            interval_text(s.late),
            interval_text(s.over_copy),
            interval_text(s.over_mean),
            s.beats_copy,
            s.beats_mean,
        )
    return rows


def document(
    run: Path, step: int, plan: RetentionPlan, summaries: Sequence[Summary], trials: Sequence[RetentionTrial]
) -> dict[str, object]:
    """Returns the JSON: the plan, a summary for each operator, every trial behind it."""
    return {
        "run": str(run),
        "step": step,
        "plan": {**asdict(plan), "measured": plan.measured},
        "operators": [{**asdict(s), "beats_copy": s.beats_copy, "beats_mean": s.beats_mean} for s in summaries],
        "trials": [asdict(trial) for trial in trials],
    }
