"""The task bank: valid tasks from which teachers' references and code_f programs are drawn."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from redqueen.programs.normal_form import fingerprint
from redqueen.records import Kind, Task


@dataclass(frozen=True, slots=True)
class Entry:
    """A task with its provenance; `rho` is the solve rate when it was played, None for a seed."""

    task: Task
    rho: float | None


class TaskBank:
    """Holds one task of each kind per program (in normal form); when a kind is full, its oldest task is dropped."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._entries: dict[Kind, dict[str, Entry]] = {}

    def add(self, task: Task, rho: float | None) -> bool:
        """False if the kind's bank holds the same program already."""
        shelf = self._entries.setdefault(task.kind, {})
        name = fingerprint(task.program)
        if name in shelf:
            return False
        shelf[name] = Entry(task, rho)
        if len(shelf) > self.capacity:
            del shelf[next(iter(shelf))]
        return True

    def references(self, kind: Kind, count: int, rng: random.Random) -> list[Task]:
        """Up to `count` different tasks of `kind`."""
        tasks = [entry.task for entry in self._entries.get(kind, {}).values()]
        return rng.sample(tasks, min(count, len(tasks)))

    def program(self, rng: random.Random, lines: int = 0) -> Task:
        """A task of any kind, whose program (of at most `lines` lines, if given) a code_f proposal starts from.

        Raises IndexError if there is none.
        """
        shelves = [
            [entry.task for entry in shelf.values() if not lines or len(entry.task.program.splitlines()) <= lines]
            for shelf in self._entries.values()
        ]
        return rng.choice(rng.choice([shelf for shelf in shelves if shelf]))

    def entries(self) -> list[Entry]:
        """Everything, oldest first within each kind: `restore` gives the same bank back."""
        return [entry for shelf in self._entries.values() for entry in shelf.values()]

    def restore(self, entries: Iterable[Entry]) -> None:
        """Replaces the content by `entries`, as `entries()` returned them."""
        self._entries = {}
        for entry in entries:
            self.add(entry.task, entry.rho)

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))
