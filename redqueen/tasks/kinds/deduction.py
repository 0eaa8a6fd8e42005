"""Deduction: the student sees a program and an input, and predicts the output."""

from __future__ import annotations

from collections.abc import Sequence

from redqueen.jail import CodecError
from redqueen.records import Pair, Prompt, Task, Verdict
from redqueen.tasks.kinds.kind import (
    LINE,
    Answer,
    InputCounts,
    Question,
    TaskKind,
    Trial,
    fence,
    program_above,
)
from redqueen.tasks.kinds.telling import holds
from redqueen.tasks.kinds.work import WorkedText, Workings, after_arrow


class Deduction(TaskKind):
    """The answer is a literal, which is compared with the recorded output; no program runs."""

    title = "predict the output"
    puzzle = "predict the output"
    asks = "the output is asked"

    def trial(self, answer: Answer, text: str) -> Trial | Verdict:
        correct = self.language.identity_of(text) == answer.expected[0]
        return Verdict(status="correct" if correct else "wrong", output=self.language.spell(text))

    def told(self, task: Task) -> bool:
        return holds(task.program, task.pairs[0].output, given=task.pairs[0].input)

    def question(self, task: Task) -> Prompt:
        return Prompt(f"{self.posed(task)}\n{self.language.ask_output(task.pairs[0].input)}", LINE)

    def write_answer(self, task: Task) -> str:
        return f" {task.pairs[0].output}"

    def write_work(self, task: Task, workings: Workings) -> str | None:
        lines = workings.trace(task, task.pairs[0].input)
        if lines is None:
            return None
        text = "\n".join(["", *lines])
        # A value that the jail writes in another way, such as an object of a class of the program, has no work.
        answer = self.read_work(text).answer
        right = answer is not None and self._is_value(answer) and self._same(answer, task.pairs[0].output)
        return text if right else None

    def _same(self, value: str, other: str) -> bool:
        return self.language.identity_of(value) == self.language.identity_of(other)

    def read_work(self, text: str) -> WorkedText:
        return after_arrow(text, self._is_value)

    def _is_value(self, text: str) -> bool:
        try:
            self.language.identity_of(text)
        except CodecError:
            return False
        return True

    def goal(self, counts: InputCounts) -> str:
        del counts
        name = self.language.words.name
        return f"Invent a {name} program and an input such that its output takes real reasoning to predict."

    def chat_question(self, task: Task) -> str:
        words = self.language.words
        asked = f"What does {words.function} return for this input?"
        return "\n\n".join([asked, fence(words.fence, self.posed(task)), fence("input", task.pairs[0].input)])

    def answer_form(self) -> str:
        return f"one ```output block with a {self.language.words.name} literal"

    @property
    def answer_block(self) -> str:
        return "output"

    def write_question(self, task: Task) -> str:
        return f"{task.program}\n{self.language.equation(task.pairs[0].input, '?')}"

    def read_question(self, lines: Sequence[str]) -> Question | None:
        given = self.language.read_output_gap(lines[-1].strip())
        if given is None:
            return None
        pairs = (Pair(given, ""),)
        return Question(kind=self.name, program=program_above(lines), pairs=pairs, unanswered=True)

    def recorded_answer(self, task: Task) -> str:
        return task.pairs[0].output

    def only_answer(self, task: Task) -> str:
        return task.pairs[0].output
