"""Tasks as rows of a data set for another trainer: what the model is asked, and what its answer is judged on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from redqueen.config import GameConfig
from redqueen.errors import UserError
from redqueen.method.prompts import prompts
from redqueen.method.seeds import is_reserved
from redqueen.records import Task
from redqueen.store.dataset.files import fixed_tasks
from redqueen.tasks.kinds import find

Style = Literal["chat", "completion"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedTask:
    """One row. Lists of plain texts, so that Arrow, JSON and pickle all carry it."""

    task: Task
    style: Style
    prompt: str | list[dict[str, str]]
    """A text, or a conversation of one message."""
    opening: str
    """What the prompt ends with that is already part of the answer, such as `def f(`."""

    def columns(self) -> dict[str, Any]:
        """Returns the row as TRL takes it: each column but `prompt` is handed to the reward function."""
        return {
            "prompt": self.prompt,
            "id": self.task.id,
            "kind": self.task.kind,
            "program": self.task.program,
            "inputs": [pair.input for pair in self.task.pairs],
            "outputs": [pair.output for pair in self.task.pairs],
            "message": self.task.message,
            "style": self.style,
            "opening": self.opening,
        }


def task_rows(source: str | Path, style: Style = "chat") -> list[dict[str, Any]]:
    """Returns the tasks of a run's folder, or of what `redqueen tasks export` wrote, as rows for another trainer.

    `style` is "chat" for instruct models, whose prompts are conversations, or "completion" for all others. The tasks
    are posed without worked examples.

    Raises UserError if the source holds no tasks, or a row that is none.
    """
    return [task_row(task, style).columns() for task in posed_tasks(source)]


def posed_tasks(source: str | Path) -> list[Task]:
    """Returns the tasks of a source without those similar to a reserved program: models are only measured on these.

    Raises UserError if none is left, or for a row that is no task.
    """
    tasks = fixed_tasks(Path(source))
    # A program may have many tasks, and a shape takes a parse.
    programs = {(task.kind, task.program) for task in tasks}
    left_out = {(kind, program) for kind, program in programs if is_reserved(program, kind)}
    posed = [task for task in tasks if (task.kind, task.program) not in left_out]
    if not posed:
        raise UserError(f"{source}: every task is similar to a reserved program, which models are only measured on")
    return posed


def can_be_varied(task: Task) -> bool:
    """Returns whether a teacher can be shown a task, to write another: it has a program, and a teacher writes such."""
    kind = find(task.kind)
    return kind.has_program(task) and not kind.generated


def task_row(task: Task, style: Style) -> ExportedTask:
    """Returns the row of one task. Raises UserError for a style that there is not."""
    if style not in ("chat", "completion"):
        raise UserError(f"style={style!r}: choose chat or completion")
    asked = prompts(style, GameConfig()).attempt(task, ())
    if style == "chat":
        return ExportedTask(
            task=task, style=style, prompt=[{"role": "user", "content": asked.text}], opening=asked.prefix
        )
    return ExportedTask(task=task, style=style, prompt=asked.text + asked.prefix, opening=asked.prefix)


def answer_in(task: Task, text: str, style: Style, opening: str = "") -> str | None:
    """Returns the answer in a model's text, or None if there is none. What follows the end of an answer does not count.

    Other trainers may sample beyond the text at which the game stops, so the text is cut there. A tagged answer is not:
    the last one counts, as the model may have withdrawn another.
    """
    reader = prompts(style, GameConfig())
    asked = reader.attempt(task, ())
    for stop in () if asked.tagged else asked.stop:
        text = text.partition(stop)[0]
    return reader.read_attempt(task.kind, opening + text)
