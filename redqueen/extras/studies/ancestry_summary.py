"""One verdict on each side of a run: progress, cycling, collapse, or nothing shown, from who solves whose tasks.

The sample is tasks on both sides. Every student epoch attempts the same tasks, so students' differences are paired by
task. Each teacher epoch has tasks of its own, so teachers' samples are independent. docs/extras/STUDIES.md has
the rules in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from redqueen.base.intervals import LEVEL, Interval, difference, interval, mean, slope
from redqueen.extras.studies.ancestry import Games

Conclusion = Literal["progress", "cycling", "collapse", "nothing shown", "too few epochs"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one side did."""

    verdict: Conclusion
    """See `students` and `teachers`."""
    change: Interval | None
    """The trend over the whole run, with a 95 % interval; None with fewer than two epochs. Students: fitted change of
    the solve rate at fixed tasks from the first student epoch to the last. Teachers: fitted change of difficulty (1 -
    solve rate of fixed students) from the first task epoch to the last."""
    fall: Interval | None
    """The last epoch minus the best one before it, at a level that allows for the choice of the best."""
    cycle: int | None
    """The epoch (a number of steps) that the last one beats on recent opponents and loses to on older ones."""


def students(games: Games) -> Finding:
    """Returns the finding about the students of the epochs, at the tasks of all epochs.

    collapse: `change` is below 0, or `fall` is. cycling: there is an earlier epoch that the last students beat on the
    tasks made since, and lose to on those made before. progress: `change` is above 0. Cycling goes before collapse,
    collapse before progress.
    """
    scores = _complete(games)
    epochs = len(games.students)
    if epochs < 2 or not scores:
        return Finding("too few epochs", None, None, None)
    times = [epoch.step for epoch in games.students]
    length = times[-1] - times[0]
    change = interval([_rise(times, by_epoch) * length for _, by_epoch in scores])
    # The last epoch is compared with each earlier one, and the worst comparison is reported. Among many comparisons one
    # is far from zero by chance, so each has a share of the error only (Bonferroni): all of them together hold at
    # LEVEL.
    level = 1 - (1 - LEVEL) / (epochs - 1)
    falls = [_gain(scores, i, level) for i in range(epochs - 1)]
    fall = min((f for f in falls if f is not None), key=lambda f: f.mean)
    # A cycle needs both halves: better at what came later, and worse at what was there before. A student who merely
    # forgets fails the first half, and one who merely improves fails the second.
    cycle = None
    for i, step in enumerate(times[:-1]):
        old = _gain([score for score in scores if score[0] <= step], i, level)
        recent = _gain([score for score in scores if score[0] > step], i, level)
        if old is not None and recent is not None and old.below and recent.above:
            cycle = step
    return Finding(_verdict(change, fall, cycle), change, fall, cycle)


def teachers(games: Games) -> Finding:
    """Returns the finding about the tasks of the epochs; verdicts are of difficulty instead of solving.

    cycling: the last tasks are harder than those of an earlier epoch for the students since, and easier for those
    before.
    """
    if len(games.tasks) < 2:
        return Finding("too few epochs", None, None, None)
    everyone = range(len(games.students))
    difficulties = [_difficulties(games, j, everyone) for j in range(len(games.tasks))]
    times = [(epoch.first + epoch.last) / 2 for epoch in games.tasks]
    # Every epoch has other tasks, so nothing is paired here: one line is fitted through all tasks of all epochs.
    point_times: list[float] = []
    point_values: list[float] = []
    for time, values in zip(times, difficulties, strict=True):
        point_times += [time] * len(values)
        point_values += values
    trend = slope(point_times, point_values)
    change = None if trend is None else _scaled(trend, times[-1] - times[0])
    # Bonferroni, as for students: the worst of several comparisons is reported.
    level = 1 - (1 - LEVEL) / (len(difficulties) - 1)
    falls = [f for values in difficulties[:-1] if (f := difference(difficulties[-1], values, level)) is not None]
    fall = min(falls, key=lambda f: f.mean) if falls else None
    # The same two groups of students judge the old tasks and the last ones, so that a difference between the groups
    # cannot look like a difference between the tasks.
    cycle = None
    for j, epoch in enumerate(games.tasks[:-1]):
        before = [i for i, s in enumerate(games.students) if s.step < epoch.last]
        since = [i for i, s in enumerate(games.students) if s.step >= epoch.last]
        old = _harder(games, j, before, level)
        recent = _harder(games, j, since, level)
        if old is not None and recent is not None and old.below and recent.above:
            cycle = epoch.first
    return Finding(_verdict(change, fall, cycle), change, fall, cycle)


def rates(games: Games) -> list[list[float | None]]:
    """Returns the matrix [student epoch, task epoch] of mean solve rates."""
    return [list(map(mean, row)) for row in games.solved]


def unsolved(games: Games) -> list[float]:
    """Returns the share of each task epoch's tasks that no student of any epoch solved: too hard, or impossible."""
    return [_unsolved(games, j) for j in range(len(games.tasks))]


def _unsolved(games: Games, j: int) -> float:
    """Returns the share of the tasks of epoch `j` that no student epoch solved."""
    by_task = zip(*(row[j] for row in games.solved), strict=True)
    return fmean(not any(by_student) for by_student in by_task)


def _verdict(change: Interval | None, fall: Interval | None, cycle: int | None) -> Conclusion:
    # A cycle can look like a trend, up or down, so it is asked for first. Collapse goes before progress: a run that
    # rose and then fell may still have a rising trend, which would hide the loss at its end.
    if cycle is not None:
        return "cycling"
    if (fall is not None and fall.below) or (change is not None and change.below):
        return "collapse"
    if change is not None and change.above:
        return "progress"
    return "nothing shown"


def _complete(games: Games) -> list[tuple[int, list[float]]]:
    """Returns the step and the solve rates by student epoch of each task that every epoch could be judged on."""
    # Students are compared task by task. A task that one epoch has no value for would enter some of the comparisons and
    # not others, so it is left out of all.
    complete: list[tuple[int, list[float]]] = []
    for j, epoch in enumerate(games.tasks):
        for t, task in enumerate(epoch.tasks):
            by_epoch = [row[j][t] for row in games.solved]
            solve_rates = [value for value in by_epoch if value is not None]
            if len(solve_rates) == len(by_epoch):
                complete.append((task.step, solve_rates))
    return complete


def _gain(scores: Sequence[tuple[int, list[float]]], i: int, level: float) -> Interval | None:
    """Returns how much more of these tasks the last student epoch solves than epoch `i`, paired by task."""
    return interval([by_epoch[-1] - by_epoch[i] for _, by_epoch in scores], level)


def _rise(times: Sequence[float], values: Sequence[float]) -> float:
    """Returns the least-squares slope."""
    middle = fmean(times)
    return sum((t - middle) * v for t, v in zip(times, values, strict=True)) / sum((t - middle) ** 2 for t in times)


def _difficulties(games: Games, j: int, rows: Sequence[int]) -> list[float]:
    """Returns 1 - mean solve rate of these student epochs, for each task of epoch `j` that one could be judged on."""
    difficulties: list[float] = []
    for t in range(len(games.tasks[j].tasks)):
        solved = mean(games.solved[i][j][t] for i in rows)
        if solved is not None:
            difficulties.append(1 - solved)
    return difficulties


def _harder(games: Games, j: int, rows: Sequence[int], level: float) -> Interval | None:
    """Returns how much harder the last tasks are than those of epoch `j`, for these student epochs."""
    return difference(_difficulties(games, len(games.tasks) - 1, rows), _difficulties(games, j, rows), level)


def _scaled(trend: Interval, factor: float) -> Interval:
    """Returns the interval in other units."""
    low = None if trend.low is None else trend.low * factor
    high = None if trend.high is None else trend.high * factor
    return Interval(trend.mean * factor, low, high, trend.n)
