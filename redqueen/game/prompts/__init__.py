"""Prompts are a seam with two implementations: raw completion for base and small models, chat for instruct models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from redqueen.config import GameConfig
from redqueen.game.prompts.chat import ChatPrompts
from redqueen.game.prompts.completion import CompletionPrompts
from redqueen.records import Draft, Kind, Prompt, Task

__all__ = ["ChatPrompts", "CompletionPrompts", "Prompts", "prompts"]


class Prompts(Protocol):
    """How tasks are asked for and posed, and how answers are read. Reading never evaluates anything."""

    def propose(self, kind: Kind, references: Sequence[Task], start: Task | None) -> Prompt:
        """Asks for a proposal. code_f starts from the program of `start`, the other kinds from none."""
        ...

    def read_proposal(self, kind: Kind, text: str, start: Task | None) -> Draft | str:
        """The draft in a teacher's text, or one line on why there is none."""
        ...

    def write_proposal(self, task: Task) -> str:
        """The text, prefix included, that a teacher who wrote `task` would have written (the warm start's target)."""
        ...

    def attempt(self, task: Task, examples: Sequence[Task]) -> Prompt:
        """Poses a task; `examples` are worked tasks of the same kind."""
        ...

    def read_attempt(self, kind: Kind, text: str) -> str | None:
        """The answer in a student's text (a literal, an argument list or a program), None if there is none."""
        ...

    def write_attempt(self, task: Task) -> str:
        """The text, prefix included, that answers `task` as recorded."""
        ...


def prompts(name: str, game: GameConfig) -> Prompts:
    """The implementation called `name` ("completion" or "chat")."""
    return ChatPrompts(game) if name == "chat" else CompletionPrompts(game)
