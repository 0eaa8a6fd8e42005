"""A question in words, which has an answer and no program: the form that kinds of fixed questions share."""

from __future__ import annotations

from redqueen.records import Task
from redqueen.tasks.kinds.kind import TaskKind


class QuestionKind(TaskKind):
    """The student sees a question, which is in the place of the program, and answers it."""

    title = "answer the question"
    puzzle = "answer the question"
    generated = True
    guessable = False

    def write_answer(self, task: Task) -> str:
        return f" {self.recorded_answer(task)}"

    def chat_question(self, task: Task) -> str:
        return task.program

    @property
    def answer_block(self) -> str:
        return "answer"

    def write_question(self, task: Task) -> str:
        return task.program
