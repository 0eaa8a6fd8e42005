"""What the trials of a retention study say about each operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

from redqueen.base.intervals import Interval, interval, paired
from redqueen.extras.studies.retention.study import COPY, MEAN, RetentionPlan, RetentionTrial

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
