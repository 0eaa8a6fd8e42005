"""The present plays the past: students of every epoch attempt the tasks of every epoch, and what that shows.

Cliff and Miller's plot of current individuals against ancestral opponents (CIAO; Tracking the Red Queen, ECAL 1995).
Student epochs are a run's checkpoints and the champions in its hall of fame; task epochs are windows of its steps, with
their tasks from the archive.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from statistics import fmean
from typing import Literal

from redqueen.analysis.replay import Replay, ranked_students
from redqueen.base import streams
from redqueen.base.intervals import LEVEL, Interval, difference, interval, mean, slope
from redqueen.config import EvolutionSettings
from redqueen.engine.adapters import Adapter
from redqueen.method.rewards import solve_rate
from redqueen.records import Kind, Task, Verdict
from redqueen.store import checkpoint
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import TaskRow
from redqueen.store.directory import RunDirectory, RunError

SLOTS = 16
"""How many students share the base at a time: more decode together, but each needs memory."""
Report = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class StudentEpoch:
    """The fittest students after `step` steps, with their weights by name."""

    step: int
    adapters: Mapping[str, Adapter]


@dataclass(frozen=True, slots=True)
class TaskEpoch:
    """Tasks that were drawn from the steps `first` to `last`."""

    first: int
    last: int
    tasks: tuple[Task, ...]
    count: int
    """How many tasks there were to draw from."""

    @property
    def steps(self) -> str:
        """The steps as text, e.g. "3-5" or "3"."""
        return str(self.last) if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class Games:
    """Everything that was played."""

    students: tuple[StudentEpoch, ...]
    tasks: tuple[TaskEpoch, ...]
    solved: tuple[tuple[tuple[float | None, ...], ...], ...]
    """`solved[i][j][t]` is the solve rate, in [0, 1], of the students of epoch i at task t of task epoch j; None if
    every attempt was lost to a fault of the machine."""


def student_epochs(
    directory: RunDirectory, settings: EvolutionSettings, epochs: int, students: int
) -> list[StudentEpoch]:
    """Returns at most `epochs` of the run's past, the first and the last among them, evenly spaced.

    An epoch is a checkpoint with the fittest `students` (all, if fewer live) or, where its checkpoint is gone, the
    champion of that time from the hall of fame. Raises RunError if there is no checkpoint.
    """
    saved = directory.saved()
    if not saved:
        raise RunError(f"{directory.path} has no checkpoint: nothing was trained here")
    # By default a run keeps only its last checkpoints, but it keeps champions much longer. Champions fill the gaps of
    # the past: at a step that still has a checkpoint they are left out, since the checkpoint has them among more
    # students.
    newest = checkpoint.load(directory.checkpoints, saved[-1])
    champions: dict[int, StudentEpoch] = {}
    for champion in newest.population.hall_of_fame.values():
        if champion.role == "student" and champion.step not in saved:
            champions[champion.step] = StudentEpoch(champion.step, {champion.member: newest.adapters[champion.name]})
    # One checkpoint is loaded at a time, and only the weights of the chosen students are kept from it.
    chosen: list[StudentEpoch] = []
    for step in spread(sorted({*saved, *champions}), epochs):
        if step in champions:
            chosen.append(champions[step])
            continue
        then = newest if step == newest.step else checkpoint.load(directory.checkpoints, step)
        names = ranked_students(then, settings)[:students]
        chosen.append(StudentEpoch(step, {name: then.adapters[name] for name in names}))
    return chosen


def task_epochs(directory: RunDirectory, kinds: Sequence[Kind], seed: int, epochs: int, tasks: int) -> list[TaskEpoch]:
    """Cuts the steps played into at most `epochs` windows of equal length and draws `tasks` in each, kinds in turn.

    A window without tasks is left out. Raises RunError if no task was ever valid.
    """
    by_step = _archived(directory)
    if not by_step:
        raise RunError(f"{directory.path} has no valid task in its archive: nothing to play")
    played = max(by_step)
    windows = min(epochs, played)
    # Bounds are rounded one by one, so the windows differ by one step at most and cover all steps played. Every window
    # gives the same number of tasks: epochs are compared with each other, so none may weigh more.
    bounds = [round(i * played / windows) for i in range(windows + 1)]
    chosen: list[TaskEpoch] = []
    for before, last in pairwise(bounds):
        candidates: list[Task] = []
        for step in range(before + 1, last + 1):
            candidates += by_step.get(step, [])
        if candidates:
            drawn = in_turns(candidates, kinds, streams.python(seed, "ancestry", last))[:tasks]
            # Random numbers are derived from the task's id. With another id they differ from those of the run itself.
            renamed = tuple(replace(task, id=f"ancestry.{task.id}") for task in drawn)
            chosen.append(TaskEpoch(before + 1, last, renamed, len(candidates)))
    return chosen


def play(
    replay: Replay, students: Sequence[StudentEpoch], tasks: Sequence[TaskEpoch], attempts: int, report: Report
) -> Games:
    """Lets every student epoch attempt every task, with the same random numbers.

    `replay` has room for `SLOTS` members, so the students come in chunks of that size.
    """
    # A member lives through several epochs under one name, with other weights in each: here the step is part of the
    # name.
    members: list[tuple[int, str, Adapter]] = []
    for i, epoch in enumerate(students):
        members += [(i, f"{epoch.step}/{name}", adapter) for name, adapter in epoch.adapters.items()]
    verdicts: dict[tuple[int, str], list[Verdict]] = {}
    for start in range(0, len(members), SLOTS):
        chunk = members[start : start + SLOTS]
        epoch_of = {name: i for i, name, _ in chunk}
        for _, name, adapter in chunk:
            replay.policy.join(name, adapter)
        # one epoch's tasks at a time, so that progress is reported
        for e, epoch in enumerate(tasks):
            report("playing", start * len(tasks) + e * len(chunk), len(members) * len(tasks))
            # The random numbers of an attempt depend on the task only. Draws are paired: a difference between two
            # student epochs at one task is not blurred by different luck, so intervals of differences are narrower.
            posed = list(product(epoch_of, epoch.tasks))
            for attempt in replay.self_play.attempt(posed, attempts):
                key = (epoch_of[attempt.rollout.member], attempt.task.id)
                verdicts.setdefault(key, []).append(attempt.verdict)
        for name in epoch_of:
            replay.policy.leave(name)
    report("playing", len(members) * len(tasks), len(members) * len(tasks))
    solved = tuple(_solved(verdicts, i, tasks) for i in range(len(students)))
    return Games(tuple(students), tuple(tasks), solved)


def _solved(
    verdicts: Mapping[tuple[int, str], Sequence[Verdict]], students: int, tasks: Sequence[TaskEpoch]
) -> tuple[tuple[float | None, ...], ...]:
    """Returns the solve rates of one student epoch at each task of each epoch."""
    by_epoch: list[tuple[float | None, ...]] = []
    for epoch in tasks:
        rates = (solve_rate(verdicts[students, task.id]) for task in epoch.tasks)
        by_epoch.append(tuple(rates))
    return tuple(by_epoch)


def spread(steps: Sequence[int], most: int) -> list[int]:
    """Returns at most `most` of `steps`, evenly spaced by rank: the first and the last, or the last if it is one."""
    if most == 1:
        return [steps[-1]]
    count = min(most, len(steps))
    return [steps[round(i * (len(steps) - 1) / max(1, count - 1))] for i in range(count)]


def _archived(directory: RunDirectory) -> dict[int, list[Task]]:
    """Returns the valid tasks that members wrote, by step; of a run without teachers its fixed tasks."""
    by_step: dict[int, list[Task]] = {}
    with ArchiveReader(directory.archive) as archive:
        # A champion writes as its member did long before, and fixed tasks say nothing about teachers.
        for row in archive.tasks_of_members() or archive.every(TaskRow):
            by_step.setdefault(row.step, []).append(row.task())
    return by_step


def in_turns(tasks: Sequence[Task], kinds: Sequence[Kind], rng: random.Random) -> list[Task]:
    """Returns the tasks of these kinds in random order, the kinds taking turns: one of each, then another of each.

    Kinds differ in difficulty. With a plain draw a change in the mix of kinds would look like a change of difficulty.
    """
    # `turn` is a task's place among those of its kind: sorting by it takes one of each kind, then another of each. A
    # kind that has fewer tasks drops out of the later turns, so that any number of tasks from the start is as mixed as
    # can be.
    shuffled = rng.sample(list(tasks), len(tasks))
    turns: list[tuple[int, int, Task]] = []
    for position, kind in enumerate(kinds):
        of_kind = [task for task in shuffled if task.kind == kind]
        turns += [(turn, position, task) for turn, task in enumerate(of_kind)]
    turns.sort(key=lambda entry: entry[:2])
    return [task for _, _, task in turns]


# One verdict on each side of a run: progress, cycling, collapse, or nothing shown, from who solves whose tasks.
#
# The sample is tasks on both sides. Every student epoch attempts the same tasks, so students' differences are paired by
# task. Each teacher epoch has tasks of its own, so teachers' samples are independent. docs/extras/STUDIES.md has
# the rules in words.

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
    # Less the first value, equal values give 0 exactly. Rounding would leave the same trace of a slope in every task.
    moved = ((t - middle) * (v - values[0]) for t, v in zip(times, values, strict=True))
    return sum(moved) / sum((t - middle) ** 2 for t in times)


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
