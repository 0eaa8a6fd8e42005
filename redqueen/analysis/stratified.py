"""Draws tasks for an experiment so that every kind has an equal share."""

from __future__ import annotations

import random
from collections.abc import Sequence

from redqueen.records import Kind, Task


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
