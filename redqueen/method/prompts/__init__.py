"""How tasks become prompts and how answers are read.

There are three implementations: raw completion for base and small models, the same with work before the answer, and
chat for instruct models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from redqueen import plugins
from redqueen.config import GameConfig
from redqueen.method.prompts.chat import ChatPrompts, parted
from redqueen.method.prompts.completion import CompletionPrompts
from redqueen.method.prompts.work import WorkPrompts
from redqueen.records import Draft, Kind, Prompt, Task
from redqueen.tasks.kinds import WorkedText, Workings, find_or_plain

__all__ = [
    "ChatPrompts",
    "CompletionPrompts",
    "Prompts",
    "WithLessons",
    "WithWork",
    "WorkPrompts",
    "prompts",
    "taken_apart",
    "work_of",
]


class Prompts(Protocol):
    """Asks for tasks, poses tasks and reads the answers. Reading evaluates nothing."""

    def propose(self, kind: Kind, references: Sequence[Task], start: Task | None) -> Prompt:
        """Returns the request for a proposal. It starts from the program of `start` if the kind says so."""
        ...

    def read_proposal(self, kind: Kind, text: str, start: Task | None) -> Draft | str:
        """Returns the draft in a teacher's text, or one line that says why there is none."""
        ...

    def write_proposal(self, task: Task) -> str:
        """Returns the text, prefix included, with which a teacher proposes `task`. It is the warm start's target."""
        ...

    def attempt(self, task: Task, examples: Sequence[Task]) -> Prompt:
        """Returns the question of a task; `examples` are worked tasks of the same kind."""
        ...

    def read_attempt(self, kind: Kind, text: str) -> str | None:
        """Returns the answer in a student's text (a literal, an argument list or a program), None if there is none."""
        ...

    def write_attempt(self, task: Task) -> str:
        """Returns the text, prefix included, that answers `task` as recorded."""
        ...


@runtime_checkable
class WithWork(Protocol):
    """A format in which a student writes work before its answer."""

    def work(self, kind: Kind, text: str) -> str:
        """Returns what a student wrote on the way to its answer; "" if it wrote none. It is never judged."""
        ...


@runtime_checkable
class WithLessons(WithWork, Protocol):
    """A format whose work the warm start teaches."""

    def write_work(self, task: Task, workings: Workings) -> str | None:
        """Returns the text, prefix included, that works `task` out and answers it; None if there is none."""
        ...


def prompts(name: str, game: GameConfig) -> Prompts:
    """Returns the implementation called `name`: "completion", "work", "chat", or a plugin's."""
    if name == "completion":
        return CompletionPrompts(game)
    if name == "work":
        return WorkPrompts(game)
    if name == "chat":
        return ChatPrompts(game)
    return plugins.find("prompt format", name)(game)


def work_of(prompts: Prompts, kind: Kind, text: str) -> str:
    """Returns the work in a student's text; "" if there is none, or the format has none."""
    return prompts.work(kind, text) if isinstance(prompts, WithWork) else ""


def taken_apart(name: str, kind: Kind, text: str) -> WorkedText:
    """Returns an attempt's work, and its answer as people are shown it, in a run whose prompts are called `name`.

    All of an attempt in a format without work is its answer, and so it is in a format of a plugin that is not loaded.
    """
    asked = find_or_plain(kind)
    if name == "work":
        written = asked.read_work(text)
        return replace(written, answer=written.answer and asked.answered(written.answer))
    if name == "chat":
        return parted(text)
    return WorkedText(work="", answer=asked.written(text))
