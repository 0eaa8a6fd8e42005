"""The retention study as a figure: how each operator's children come back to their parent's level."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from redqueen.extras.studies.retention.study import COPY, MEAN, RetentionPlan, RetentionTrial

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
