"""The task bank: valid tasks, from which teachers' references and the programs of code_f proposals are drawn."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from redqueen.programs.normal_form import fingerprint
from redqueen.records import Kind, Task


@dataclass(frozen=True, slots=True)
class Entry:
    """A task and how it was played."""

    task: Task
    rho: float | None
    """The solve rate when the task was played, in [0, 1]; None for a seed."""


class TaskBank:
    """Holds one task of each kind per program (in normal form); when a kind is full, its oldest task is dropped."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        # By kind and fingerprint, oldest first. Draws go by position, so the order is part of a run's state.
        self._entries: dict[Kind, dict[str, Entry]] = {}

    def add(self, task: Task, rho: float | None) -> bool:
        """Adds a task, unless the bank holds its program for this kind already. Returns whether it was added."""
        shelf = self._entries.setdefault(task.kind, {})
        name = fingerprint(task.program)
        if name in shelf:
            return False
        shelf[name] = Entry(task, rho)
        if len(shelf) > self.capacity:
            # A dictionary keeps the order of insertion, so the first key is the oldest task.
            del shelf[next(iter(shelf))]
        return True

    def references(self, kind: Kind, count: int, rng: random.Random) -> list[Task]:
        """Returns up to `count` different tasks of `kind`."""
        tasks = [entry.task for entry in self._entries.get(kind, {}).values()]
        return rng.sample(tasks, min(count, len(tasks)))

    def program(self, rng: random.Random, lines: int = 0) -> Task:
        """Returns a task of any kind, whose program (of at most `lines` lines, if given) a code_f proposal starts from.

        Raises IndexError if there is none.
        """
        shelves: list[list[Task]] = []
        for shelf in self._entries.values():
            tasks = [entry.task for entry in shelf.values()]
            if lines:
                tasks = [task for task in tasks if len(task.program.splitlines()) <= lines]
            if tasks:
                shelves.append(tasks)
        # The kind is drawn first, so that a kind with few tasks is not drowned by the others.
        return rng.choice(rng.choice(shelves))

    def entries(self) -> list[Entry]:
        """Returns all entries, kind by kind and oldest first. `restore` rebuilds the same bank from them."""
        entries: list[Entry] = []
        for shelf in self._entries.values():
            entries += shelf.values()
        return entries

    def restore(self, entries: Iterable[Entry]) -> None:
        """Replaces the content with `entries`, as `entries()` returned them."""
        self._entries = {}
        for entry in entries:
            self.add(entry.task, entry.rho)

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))
