"""The task bank: valid tasks, from which teachers' references, and programs to start from, are drawn."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from redqueen.config import ReferenceSource
from redqueen.method.seeds import idea, is_fixed, is_reserved, seed_ideas
from redqueen.records import Kind, Task
from redqueen.tasks.kinds import find
from redqueen.tasks.programs.normal_form import hashed

NEWEST = 64
"""How many of a kind's latest tasks references are drawn from with the source "newest"."""

Likeness = tuple[str, str]
"""A language and a shape: equal for programs of the language that are similar up to names and constants."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A task and how it was played."""

    task: Task
    rho: float | None
    """The solve rate when the task was played, in [0, 1]; None for a fixed task, or if no attempt was judged."""
    # What is known of a fixed task that was posed (`redqueen.method.practice`).
    solved: float = 0.0
    """The attempts that solved it; what is old counts less."""
    tried: float = 0.0
    """All judged attempts at it, counted alike."""
    posed: int = 0
    """The last step that posed it."""


class TaskBank:
    """Holds each task once; when a kind is full, its oldest task that is not fixed is dropped, or its oldest fixed one.

    One task that is not fixed always has a place.

    Two tasks of a kind are the same if they have the same program (in normal form), inputs and message. Programs are
    compared in four ways, from the strictest to the loosest:

    - identity: what `add` takes for the same task;
    - fingerprint: the same program in normal form, whatever its inputs;
    - likeness: the same program up to names and constants, by which reserved and held-out ones are kept apart;
    - idea: what makes a task novel, which its kind says.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        # By kind and identity, oldest first. Draws go by position, so the order is part of a run's state.
        self._entries: dict[Kind, dict[tuple[str, ...], Entry]] = {}
        # The tasks of a kind in that order, made when they are first drawn from: a step draws for thousands of prompts.
        self._tasks: dict[Kind, list[Task]] = {}
        # How many tasks of a kind have an idea, which stays known as long as one of them is here.
        self._ideas: dict[Kind, Counter[str]] = {}
        # The languages and shapes of the user's tasks that are held out.
        self._held_out: frozenset[Likeness] = frozenset()

    def hold_out(self, likenesses: Iterable[Likeness]) -> None:
        """Refuses from here on all programs of these likenesses."""
        self._held_out = frozenset(likenesses)

    def is_held_out(self, task: Task) -> bool:
        """Returns whether a task is similar to one of the user's that are held out."""
        return bool(self._held_out) and likeness_of(task) in self._held_out

    def add(self, task: Task, rho: float | None) -> bool:
        """Adds a task unless the bank holds it already. Returns whether it was added.

        A program similar to a reserved or a held-out one is never added, so that no reference and no worked example is
        one.
        """
        if is_reserved(task.program, task.kind) or self.is_held_out(task):
            return False
        shelf = self._entries.setdefault(task.kind, {})
        identity = _identity(task)
        if identity in shelf:
            return False
        shelf[identity] = Entry(task, rho)
        self._tasks.pop(task.kind, None)
        self._ideas.setdefault(task.kind, Counter())[idea(task)] += 1
        if len(shelf) > self.capacity:
            # A dictionary keeps the order of insertion, so the first key is the oldest task. Fixed ones stay while
            # there are others: references may be drawn from them alone, and students are posed them.
            written = [identity for identity, entry in shelf.items() if not is_fixed(entry.task)]
            # Where fixed tasks take all places the newest task stays beside them: what left at once would seem new
            # again each time.
            if len(written) > 1:
                self._drop(task.kind, written[0])
            elif len(shelf) - len(written) > self.capacity:
                self._drop(task.kind, next(identity for identity in shelf if identity not in written))
        return True

    def remove(self, program: str) -> int:
        """Drops every task on this program, of any kind and in any spelling. Returns how many. Fixed ones stay."""
        # A fixed task did repeat its outputs when it was planted. The bank may hold nothing else.
        dropped = 0
        for kind, shelf in list(self._entries.items()):
            name = find(kind).language.fingerprint(program)
            for identity, entry in list(shelf.items()):
                if not is_fixed(entry.task) and identity[0] == name:
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
        """Returns whether the task's idea (`redqueen.method.seeds`) is neither a seed's nor one of the bank's kind.

        A program like a reserved one is never novel. The bank refuses it, so otherwise every repetition would count as
        new.
        """
        if is_reserved(task.program, task.kind) or self.is_held_out(task):
            return False
        ideas = self._ideas.get(task.kind, ())
        name = idea(task)
        return name not in ideas and name not in seed_ideas(task.kind)

    def references(
        self, kind: Kind, count: int, rng: random.Random, source: ReferenceSource = "all", without: str = ""
    ) -> list[Task]:
        """Returns up to `count` tasks of `kind` with different programs.

        `source` limits the draw to the fixed tasks or to the `NEWEST` latest ones. `without` is the fingerprint of
        a program that is left out.
        """
        tasks = self._shelf(kind)
        if source == "seeds":
            tasks = [task for task in tasks if is_fixed(task)]
        elif source == "newest":
            tasks = tasks[-NEWEST:]
        drawn: list[Task] = []
        # One program may have many tasks, with other inputs each. Shown twice, it would teach nothing the second time.
        programs = {without}
        order = _shuffled(tasks, rng)
        while len(drawn) < count and (task := next(order, None)) is not None:
            program = fingerprint_of(task)
            # A person's task without a program shows nobody how one is written or solved.
            if task.program and program not in programs:
                programs.add(program)
                drawn.append(task)
        return drawn

    def fixed(self, kind: Kind) -> list[Entry]:
        """Returns the fixed tasks of a kind, in the order in which they were planted."""
        return [entry for entry in self._entries.get(kind, {}).values() if is_fixed(entry.task)]

    def entry_of(self, task: Task) -> Entry | None:
        """Returns the entry of a task, whatever its id is now; None if the bank does not hold it."""
        return self._entries.get(task.kind, {}).get(_identity(task))

    def put(self, entry: Entry) -> None:
        """Replaces what is known of a task that the bank holds."""
        self._entries[entry.task.kind][_identity(entry.task)] = entry

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
            # A newer version may have reserved a program, or take two tasks for the same, and refuse it.
            if self.add(entry.task, entry.rho):
                self.put(entry)

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))


def fingerprint_of(task: Task) -> str:
    """Returns a hash that is equal for two spellings of a task's program."""
    # A person's task may have no program: then it is the text that tells it from others.
    return find(task.kind).language.fingerprint(task.program) if task.program else hashed(task.message)


def likeness_of(task: Task) -> Likeness:
    """Returns a key that is equal for tasks whose programs differ in names and constants only."""
    language = find(task.kind).language
    return language.name, language.shape(task.program) if task.program else hashed(task.message)


def _identity(task: Task) -> tuple[str, ...]:
    # The fingerprint comes first, where `remove` looks for it. A task may hide half of its inputs, so their order
    # matters. The verifier has respelled them: equal values are equal texts.
    return (fingerprint_of(task), task.message, *(pair.input for pair in task.pairs))


def _shuffled(tasks: Sequence[Task], rng: random.Random) -> Iterator[Task]:
    """Yields the tasks in random order. Draws no number for a task that is not asked for, and copies nothing."""
    # Fisher and Yates' shuffle from the end, of which only what was moved is remembered: a few of thousands are taken.
    moved: dict[int, Task] = {}
    for last in range(len(tasks) - 1, -1, -1):
        index = rng.randrange(last + 1)
        yield moved.get(index, tasks[index])
        moved[index] = moved.get(last, tasks[last])
