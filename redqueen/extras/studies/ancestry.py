"""The present plays the past: students of every epoch attempt the tasks of every epoch.

Cliff and Miller's plot of current individuals against ancestral opponents (CIAO; Tracking the Red Queen, ECAL 1995).
Student epochs are a run's checkpoints and the champions in its hall of fame; task epochs are windows of its steps, with
their tasks from the archive.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

from redqueen.analysis.replay import Replay, ranked_students
from redqueen.base import streams
from redqueen.config import EvolutionSettings
from redqueen.engine.adapters.factors import Adapter
from redqueen.method.rewards import solve_rate
from redqueen.records import Kind, Task, Verdict
from redqueen.store import checkpoint
from redqueen.store.archive.reader import ArchiveReader
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
            for attempt in replay.attempt(posed, attempts):
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
    """Returns every valid task by step."""
    by_step: dict[int, list[Task]] = {}
    with ArchiveReader(directory.archive) as archive:
        for row in archive.tasks():
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
