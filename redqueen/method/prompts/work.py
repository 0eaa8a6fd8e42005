"""Completion prompts below which a student works its answer out, line by line, before it gives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from redqueen.method.prompts.completion import CompletionPrompts
from redqueen.records import Kind, Prompt, Task
from redqueen.tasks.kinds import Workings, find
from redqueen.tasks.kinds.kind import BLOCK


class WorkPrompts(CompletionPrompts):
    """Asks as completion prompts do. Only the answer is judged, so work pays where it leads to more right ones.

    A text that the token limit ends is malformed, so work that is longer than it needs to be costs what it should.
    """

    def attempt(self, task: Task, examples: Sequence[Task]) -> Prompt:
        # Worked examples would need the work of other tasks. The warm start teaches the form.
        del examples
        return replace(find(task.kind).question(task), stop=BLOCK)

    def write_work(self, task: Task, workings: Workings) -> str | None:
        return find(task.kind).write_work(task, workings)

    def read_attempt(self, kind: Kind, text: str) -> str | None:
        return find(kind).read_work(text).answer

    def work(self, kind: Kind, text: str) -> str:
        return find(kind).read_work(text).work
