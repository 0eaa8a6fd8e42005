"""What the trials of a retention experiment say about each operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

from redqueen.analysis.retention.study import COPY, MEAN, Plan, Trial
from redqueen.intervals import Interval, interval

Answer = Literal["yes", "no", "worse", "-"]


@dataclass(frozen=True, slots=True)
class Summary:
    """One operator over all its trials.

    Attributes:
        operator, trials: its name and the number of its children.
        kl, kl_spread: mean and standard deviation of the divergence at birth (nats per token).
        birth: reward at birth minus the parent's, with a 95 % interval.
        regained: share of children that reached the parent's level.
        updates, updates_spread: mean and standard deviation of the updates it took; a child that never did counts
            as `Plan.updates`, so the mean is then a lower bound.
        late: reward minus the parent's, mean over the measurements in the second half of the updates.
        over_copy, over_mean: `late` minus that of `copy_parent` and of `linear_mean` of the same seed and parent,
            with 95 % intervals; None where there is no such control, or it is the control itself.
    """

    operator: str
    trials: int
    kl: float
    kl_spread: float | None
    birth: Interval
    regained: float
    updates: float
    updates_spread: float | None
    late: Interval
    over_copy: Interval | None
    over_mean: Interval | None

    @property
    def beats_copy(self) -> Answer:
        return answer(self.over_copy)

    @property
    def beats_mean(self) -> Answer:
        return answer(self.over_mean)


def answer(over: Interval | None) -> Answer:
    """Whether an interval of differences is above zero ("yes"), below ("worse"), or shows nothing ("no").

    "-" where there is no comparison, or only one seed.
    """
    if over is None or over.low is None:
        return "-"
    return "yes" if over.above else "worse" if over.below else "no"


def summarise(trials: Sequence[Trial], plan: Plan) -> list[Summary]:
    """One line for each operator, in the order of the trials."""
    names = list(dict.fromkeys(trial.operator for trial in trials))
    late = {(t.operator, t.seed, t.parents[0]): _late(t, plan) for t in trials}
    return [_summary(name, [t for t in trials if t.operator == name], plan, late) for name in names]


def _summary(name: str, own: Sequence[Trial], plan: Plan, late: dict[tuple[str, int, str], float]) -> Summary:
    updates = [float(plan.updates if t.regained is None else t.regained) for t in own]

    def over(control: str) -> Interval | None:
        keys = [(t.seed, t.parents[0]) for t in own]
        if name == control or (control, *keys[0]) not in late:
            return None
        return interval([late[name, *key] - late[control, *key] for key in keys])

    return Summary(
        name,
        len(own),
        fmean(t.kl for t in own),
        _spread([t.kl for t in own]),
        _some([t.rewards[0] - t.level for t in own]),
        fmean(t.regained is not None for t in own),
        fmean(updates),
        _spread(updates),
        _some([late[name, t.seed, t.parents[0]] for t in own]),
        over(COPY),
        over(MEAN),
    )


def _late(trial: Trial, plan: Plan) -> float:
    half = [r for u, r in zip(plan.measured, trial.rewards, strict=True) if 2 * u > plan.updates]
    return fmean(half) - trial.level


def _some(values: Sequence[float]) -> Interval:
    found = interval(values)
    assert found is not None
    return found


def _spread(values: Sequence[float]) -> float | None:
    return stdev(values) if len(values) > 1 else None
