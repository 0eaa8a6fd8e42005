"""The task bank: valid tasks, from which teachers' references, and programs to start from, are drawn."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from redqueen.config import ReferenceSource
from redqueen.method.novelty import idea, seed_ideas
from redqueen.method.reserved import is_reserved
from redqueen.method.seeds import AUTHOR
from redqueen.records import Kind, Task
from redqueen.tasks.kinds import find

NEWEST = 64
"""How many of a kind's latest tasks references are drawn from with the source "newest"."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A task and how it was played."""

    task: Task
    rho: float | None
    """The solve rate when the task was played, in [0, 1]; None for a seed."""


class TaskBank:
    """Holds each task once; when a kind is full, its oldest task that is no seed is dropped.

    Two tasks of a kind are the same if they have the same program (in normal form), inputs and message.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        # By kind and identity, oldest first. Draws go by position, so the order is part of a run's state.
        self._entries: dict[Kind, dict[tuple[str, ...], Entry]] = {}
        # The tasks of a kind in that order, made when they are first drawn from: a step draws for thousands of prompts.
        self._tasks: dict[Kind, list[Task]] = {}
        # How many tasks of a kind have an idea, which stays known as long as one of them is here.
        self._ideas: dict[Kind, Counter[str]] = {}

    def add(self, task: Task, rho: float | None) -> bool:
        """Adds a task unless the bank holds it already. Returns whether it was added.

        A program similar to a reserved one is never added, so that no reference and no worked example is one.
        """
        if is_reserved(task.program, task.kind):
            return False
        shelf = self._entries.setdefault(task.kind, {})
        identity = _identity(task)
        if identity in shelf:
            return False
        shelf[identity] = Entry(task, rho)
        self._tasks.pop(task.kind, None)
        self._ideas.setdefault(task.kind, Counter())[idea(task)] += 1
        if len(shelf) > self.capacity:
            # A dictionary keeps the order of insertion, so the first key is the oldest task. Seeds stay while there are
            # others, since references may be drawn from seeds alone.
            written = (identity for identity, entry in shelf.items() if entry.task.author != AUTHOR)
            self._drop(task.kind, next(written, next(iter(shelf))))
        return True

    def remove(self, program: str) -> int:
        """Drops every task on this program, of any kind and in any spelling. Returns how many. Seeds stay."""
        # A seed is the project's own and does repeat its outputs. The bank may hold nothing else.
        dropped = 0
        for kind, shelf in list(self._entries.items()):
            name = find(kind).language.fingerprint(program)
            for identity, entry in list(shelf.items()):
                if entry.task.author != AUTHOR and fingerprint_of(entry.task) == name:
                    self._drop(kind, identity)
                    dropped += 1
        return dropped

    def _drop(self, kind: Kind, identity: tuple[str, ...]) -> None:
        entry = self._entries[kind].pop(identity)
        self._tasks.pop(kind, None)
        # A kind without tasks is not there: programs to start from are drawn by kind first.
        if not self._entries[kind]:
            del self._entries[kind]
        ideas = self._ideas[kind]
        name = idea(entry.task)
        ideas[name] -= 1
        if not ideas[name]:
            del ideas[name]

    def is_novel(self, task: Task) -> bool:
        """Returns whether the task's idea (`redqueen.method.novelty`) is neither a seed's nor one of the bank's kind.

        A program like a reserved one is never novel. The bank refuses it, so otherwise every repetition would count as
        new.
        """
        if is_reserved(task.program, task.kind):
            return False
        ideas = self._ideas.get(task.kind, ())
        name = idea(task)
        return name not in ideas and name not in seed_ideas(task.kind)

    def references(
        self, kind: Kind, count: int, rng: random.Random, source: ReferenceSource = "all", without: str = ""
    ) -> list[Task]:
        """Returns up to `count` tasks of `kind` with different programs.

        `source` limits the draw to the seeds or to the `NEWEST` latest tasks. `without` is the fingerprint of a program
        that is left out.
        """
        tasks = self._shelf(kind)
        if source == "seeds":
            tasks = [task for task in tasks if task.author == AUTHOR]
        elif source == "newest":
            tasks = tasks[-NEWEST:]
        drawn: list[Task] = []
        # One program may have many tasks, with other inputs each. Shown twice, it would teach nothing the second time.
        programs = {without}
        order = _shuffled(tasks, rng)
        while len(drawn) < count and (task := next(order, None)) is not None:
            program = fingerprint_of(task)
            if program not in programs:
                programs.add(program)
                drawn.append(task)
        return drawn

    def in_turn(self, kind: Kind, first: int, count: int, order: Callable[[int], random.Random]) -> list[Task]:
        """Returns `count` tasks of `kind` from the place `first` on, in rounds that hold each task once.

        `order` gives the random numbers that a round, counted from 0, is shuffled by. A task that is removed changes
        the rounds. There are none if the bank has no task of the kind.
        """
        tasks = self._shelf(kind)
        if not tasks:
            return []
        rounds: dict[int, list[Task]] = {}
        chosen: list[Task] = []
        for index in range(first, first + count):
            number, position = divmod(index, len(tasks))
            if number not in rounds:
                rounds[number] = list(tasks)
                order(number).shuffle(rounds[number])
            chosen.append(rounds[number][position])
        return chosen

    def _shelf(self, kind: Kind) -> list[Task]:
        """Returns the tasks of a kind, oldest first."""
        if kind not in self._tasks:
            self._tasks[kind] = [entry.task for entry in self._entries.get(kind, {}).values()]
        return self._tasks[kind]

    def program(self, kind: Kind, rng: random.Random) -> Task:
        """Returns a task of any kind, whose program a proposal of `kind` starts from: one of its language.

        Raises IndexError if there is none.
        """
        language = find(kind).language.name
        kinds = [name for name in self._entries if find(name).language.name == language]
        # The kind is drawn first, so that a kind with few tasks is not drowned by the others.
        return rng.choice(self._shelf(rng.choice(kinds)))

    def entries(self) -> list[Entry]:
        """Returns all entries, kind by kind and oldest first. `restore` rebuilds the same bank from them."""
        entries: list[Entry] = []
        for shelf in self._entries.values():
            entries += shelf.values()
        return entries

    def restore(self, entries: Iterable[Entry]) -> None:
        """Replaces the content with `entries`, as `entries()` returned them."""
        self._entries = {}
        self._tasks = {}
        self._ideas = {}
        for entry in entries:
            self.add(entry.task, entry.rho)

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))


def fingerprint_of(task: Task) -> str:
    """Returns a hash that is equal for two spellings of a task's program."""
    return find(task.kind).language.fingerprint(task.program)


def _identity(task: Task) -> tuple[str, ...]:
    # A task may hide half of its inputs, so their order matters. The verifier has respelled them: equal values are
    # equal texts.
    return (fingerprint_of(task), task.message, *(pair.input for pair in task.pairs))


def _shuffled(tasks: Sequence[Task], rng: random.Random) -> Iterator[Task]:
    """Yields the tasks in random order. Draws no number for a task that nobody asks for, and copies nothing."""
    # Fisher and Yates' shuffle from the end, of which only what was moved is remembered: a few of thousands are taken.
    moved: dict[int, Task] = {}
    for last in range(len(tasks) - 1, -1, -1):
        index = rng.randrange(last + 1)
        yield moved.get(index, tasks[index])
        moved[index] = moved.get(last, tasks[last])
