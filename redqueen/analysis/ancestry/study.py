"""The present plays the past: students of every epoch attempt the tasks of every epoch.

Cliff and Miller's plot of current individuals against ancestral opponents (CIAO; Tracking the Red Queen, ECAL 1995).
Student epochs are a run's checkpoints and the champions in its hall of fame; task epochs are windows of its steps, with
their tasks from the archive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from redqueen import streams
from redqueen.adapters.factors import Adapter
from redqueen.analysis.replay import Loaded, ranked_students
from redqueen.config import Config
from redqueen.game.rewards import solve_rate
from redqueen.records import Task, Verdict
from redqueen.runs import checkpoint
from redqueen.runs.archive.reader import ArchiveReader
from redqueen.runs.directory import RunDirectory, RunError

SLOTS = 16
Report = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class StudentEpoch:
    """The fittest students after `step` steps, with their weights by name."""

    step: int
    adapters: Mapping[str, Adapter]


@dataclass(frozen=True, slots=True)
class TaskEpoch:
    """Tasks of the steps from `first` to before `end`, counted from 0; `count` is how many there were to draw from."""

    first: int
    end: int
    tasks: tuple[Task, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Games:
    """Everything that was played.

    `solved[i][j][t]` is the solve rate, in [0, 1], of the students of epoch i at task t of task epoch j; None if the
    machine spoilt every attempt.
    """

    students: tuple[StudentEpoch, ...]
    tasks: tuple[TaskEpoch, ...]
    solved: tuple[tuple[tuple[float | None, ...], ...], ...]


def student_epochs(directory: RunDirectory, config: Config, epochs: int, students: int) -> list[StudentEpoch]:
    """At most `epochs` of the run's past, the first and the last among them, evenly spaced.

    An epoch is a checkpoint with the fittest `students` (all, if fewer live) or, where its checkpoint is gone, the
    champion of that time from the hall of fame. Raises RunError if there is no checkpoint.
    """
    saved = directory.saved()
    if not saved:
        raise RunError(f"{directory.path} has no checkpoint: nothing was trained here")
    newest = checkpoint.load(directory.checkpoints, saved[-1])
    hall = {
        champion.step + 1: StudentEpoch(champion.step + 1, {champion.member: newest.adapters[champion.name]})
        for champion in newest.population.hall_of_fame.values()
        if champion.role == "student" and champion.step + 1 not in saved
    }
    found: list[StudentEpoch] = []
    for step in spread(sorted({*saved, *hall}), epochs):
        if step in hall:
            found.append(hall[step])
            continue
        then = newest if step == newest.step else checkpoint.load(directory.checkpoints, step)
        names = ranked_students(then, config)[:students]
        found.append(StudentEpoch(step, {name: then.adapters[name] for name in names}))
    return found


def task_epochs(directory: RunDirectory, config: Config, epochs: int, tasks: int) -> list[TaskEpoch]:
    """The steps played as at most `epochs` windows of equal length; in each `tasks` drawn, the kinds in turn.

    A window without tasks is left out. Raises RunError if no task was ever valid.
    """
    by_step = _archived(directory)
    if not by_step:
        raise RunError(f"{directory.path} has no valid task in its archive: nothing to play")
    played = max(by_step) + 1
    bounds = [round(i * played / min(epochs, played)) for i in range(min(epochs, played) + 1)]
    found: list[TaskEpoch] = []
    for first, end in pairwise(bounds):
        own = [task for step in range(first, end) for task in by_step.get(step, [])]
        if own:
            found.append(TaskEpoch(first, end, _draw(own, tasks, config, first), len(own)))
    return found


def play(
    loaded: Loaded, students: Sequence[StudentEpoch], tasks: Sequence[TaskEpoch], attempts: int, report: Report
) -> Games:
    """Every student epoch at every task, with the same random numbers; `loaded` has room for `SLOTS` members."""
    members = [
        (i, f"{epoch.step}/{name}", adapter)
        for i, epoch in enumerate(students)
        for name, adapter in epoch.adapters.items()
    ]
    flat = [task for epoch in tasks for task in epoch.tasks]
    verdicts: dict[tuple[int, str], list[Verdict]] = {}
    for start in range(0, len(members), SLOTS):
        chunk = members[start : start + SLOTS]
        epoch_of = {name: i for i, name, _ in chunk}
        for _, name, adapter in chunk:
            loaded.policy.join(name, adapter)
        # the prompts of one epoch's tasks at a time, so that progress is seen
        for e, epoch in enumerate(tasks):
            report("playing", start * len(tasks) + e * len(chunk), len(members) * len(tasks))
            for a in loaded.attempt([(name, task) for name in epoch_of for task in epoch.tasks], attempts):
                verdicts.setdefault((epoch_of[a.rollout.member], a.task.id), []).append(a.verdict)
        for name in epoch_of:
            loaded.policy.leave(name)
    report("playing", len(members) * len(tasks), len(members) * len(tasks))
    assert len(flat) == len({task.id for task in flat}), "ids in the archive are unique"
    return Games(
        tuple(students),
        tuple(tasks),
        tuple(
            tuple(tuple(solve_rate(verdicts[i, task.id]) for task in epoch.tasks) for epoch in tasks)
            for i in range(len(students))
        ),
    )


def spread(steps: Sequence[int], most: int) -> list[int]:
    """At most `most` of `steps`, evenly spaced by rank, with the first and the last; the last alone if it is one."""
    if most == 1:
        return [steps[-1]]
    count = min(most, len(steps))
    return [steps[round(i * (len(steps) - 1) / max(1, count - 1))] for i in range(count)]


def _archived(directory: RunDirectory) -> dict[int, list[Task]]:
    """Every valid task, by step."""
    by_step: dict[int, list[Task]] = {}
    with ArchiveReader(directory.archive) as archive:
        for row in archive.tasks():
            by_step.setdefault(row.step, []).append(row.task())
    return by_step


def _draw(tasks: Sequence[Task], count: int, config: Config, first: int) -> tuple[Task, ...]:
    """`count` of them, the kinds in turn: a change in the mix of kinds is no change of difficulty."""
    shuffled = streams.python(config.run.seed, "ancestry", first).sample(list(tasks), len(tasks))
    by_kind = [[task for task in shuffled if task.kind == kind] for kind in config.game.kinds]
    turns = sorted(
        ((i, k, task) for k, own in enumerate(by_kind) for i, task in enumerate(own)), key=lambda turn: turn[:2]
    )
    # another name, hence other random numbers than when it was played
    return tuple(replace(task, id=f"ancestry.{task.id}") for _, _, task in turns[:count])
