"""Raw completion prompts: worked puzzles and the beginning of the next one, which ends at a blank line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from redqueen.config import GameConfig
from redqueen.records import Draft, Kind, Prompt, Task
from redqueen.tasks.kinds import find


class CompletionPrompts:
    """Shows worked puzzles and leaves the next one to be completed. The kinds have the words."""

    def __init__(self, game: GameConfig) -> None:
        self.counts = game.input_counts

    def propose(self, kind: Kind, references: Sequence[Task], start: Task | None) -> Prompt:
        wanted = find(kind)
        worked = "".join(f"{wanted.heading}\n{wanted.worked_proposal(task, self.counts)}\n\n" for task in references)
        prompt = wanted.ask_proposal(start, self.counts)
        return replace(prompt, text=worked + prompt.text)

    def read_proposal(self, kind: Kind, text: str, start: Task | None) -> Draft | str:
        return find(kind).read_proposal(text, start, self.counts)

    def write_proposal(self, task: Task) -> str:
        return find(task.kind).write_proposal(task, self.counts)

    def attempt(self, task: Task, examples: Sequence[Task]) -> Prompt:
        kind = find(task.kind)
        worked = "".join(f"{kind.question(example).text}{kind.write_answer(example)}\n\n" for example in examples)
        question = kind.question(task)
        return replace(question, text=worked + question.text)

    def write_attempt(self, task: Task) -> str:
        return find(task.kind).write_answer(task)

    def read_attempt(self, kind: Kind, text: str) -> str | None:
        return find(kind).read_answer(text)
