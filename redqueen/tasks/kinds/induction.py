"""Induction: the student sees a message and examples, and writes the program. It is judged on other examples.

A proposal starts from a program of the task bank. The teacher writes the message and the inputs.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace

from redqueen.records import Draft, Pair, Prompt, Proposal, Task, Verdict
from redqueen.tasks.kinds.kind import (
    BLOCK,
    Answer,
    Block,
    InputCounts,
    Question,
    QuestionError,
    TaskKind,
    Trial,
    attempt_verdict,
    fence,
    input_blocks,
)
from redqueen.tasks.kinds.telling import holds_code
from redqueen.tasks.kinds.work import WorkedText, Workings

_WORD = re.compile(r"\w+")
NO_MESSAGE = "see the examples"
"""The message of a task that a person poses by examples alone."""


class Induction(TaskKind):
    """The answer is a program, which runs on the hidden inputs. The task's own program is never shown."""

    title = "write the function from examples and a message"
    puzzle = "write the function"
    starts_from_program = True
    shows_examples = True

    @property
    def answer_block(self) -> str:
        return self.language.words.fence

    def idea(self, program: str, message: str) -> str:
        # The program was given. The message counts without case and punctuation.
        return " ".join(_WORD.findall(message.lower()))

    def of_program(self, whole: Task, rng: random.Random | None = None) -> Task | None:
        task = replace(whole, id=f"{whole.id}-{self.name}", kind=self.name, pairs=self._different(whole.pairs))
        # With nothing hidden every program would be right.
        return task if self.judged_on(task) else None

    def _different(self, pairs: Sequence[Pair]) -> tuple[Pair, ...]:
        """Returns the pairs of different inputs."""
        # Spellings of one value are one input. The last one is kept: a hidden pair must not also be shown.
        return tuple({self.language.input_identity(pair.input): pair for pair in pairs}.values())

    def made(
        self, proposal: Proposal, pairs: tuple[Pair, ...], verdict: Verdict, counts: InputCounts
    ) -> tuple[Verdict, Task | None]:
        pairs = self._different(pairs)
        if len(pairs) < counts.least:
            detail = f"{len(pairs)} different inputs, {counts.least} are needed"
            return replace(verdict, status="malformed", detail=detail), None
        return super().made(proposal, pairs, verdict, counts)

    def trial(self, answer: Answer, text: str) -> Trial | Verdict:
        job = self.language.job(text, answer.inputs, expected=answer.expected)
        return Trial(jobs=(job,), verdict=lambda outcomes: attempt_verdict(outcomes[0]))

    def ask_proposal(self, start: Task | None, counts: InputCounts) -> Prompt:
        # Only `counts.most` calls are read, so the text ends after as many lines. Without that, a teacher that repeats
        # one call without end would always run into the token limit.
        mark = self.language.comment("").strip()
        return Prompt(f"{self.heading}\n{_given(start).program}\n", BLOCK, mark, max_lines=1 + counts.most)

    def read_proposal(self, text: str, start: Task | None, counts: InputCounts) -> Draft | str:
        first, _, rest = text.partition("\n")
        message = self.language.uncomment(first)
        program, inputs = self.language.split_calls(rest)
        # An input that is given twice counts once, in the place where it came first.
        inputs = tuple(dict.fromkeys(inputs))[: counts.most]
        if not message or program or len(inputs) < counts.least:
            return f"a message and {counts.least} different calls {self.language.call('...')} are needed"
        return Draft(_given(start).program, inputs, message)

    def write_proposal(self, task: Task, counts: InputCounts) -> str:
        message = self.language.comment(_in_a_line(task.message))
        return super().write_proposal(replace(task, program=message), counts)

    def worked_proposal(self, task: Task, counts: InputCounts) -> str:
        return f"{task.program}\n{self.write_proposal(task, counts)}"

    def told(self, task: Task) -> bool:
        return holds_code(task.message, task.program)

    def question(self, task: Task) -> Prompt:
        examples = [self.language.equation(pair.input, pair.output) for pair in self.shown(task)]
        lines = [_in_a_line(task.message), *examples]
        return Prompt("".join(f"{self.language.comment(line)}\n" for line in lines), BLOCK, self.language.prefix)

    def write_answer(self, task: Task) -> str:
        return task.program

    def read_answer(self, text: str) -> str | None:
        return text.strip("\n") or None

    def write_work(self, task: Task, workings: Workings) -> str | None:
        # The first example is checked below the program, in comments.
        given = task.shown[0].input
        lines = workings.trace(task, given)
        if lines is None:
            return None
        return "\n".join([task.program, *map(self.language.comment, [self.language.call(given), *lines])])

    def read_work(self, text: str) -> WorkedText:
        lines = text.strip("\n").split("\n")
        mark = self.language.comment("").strip()
        end = len(lines)
        while end and lines[end - 1].startswith(mark):
            end -= 1
        return WorkedText(work="\n".join(lines[end:]), answer=self.read_answer("\n".join(lines[:end])))

    def goal(self, counts: InputCounts) -> str:
        return (
            f"Below is a {self.language.words.name} program. Write {counts.most} different inputs for it and a "
            "message, so that somebody who sees the message and half of the input/output pairs can, with real "
            "reasoning, write the function. The message must not contain code."
        )

    def proposal_form(self, counts: InputCounts) -> str:
        return f"{counts.most} ```input blocks with arguments, comma-separated, and a ```message block"

    def read_proposal_blocks(self, blocks: Sequence[Block], start: Task | None, counts: InputCounts) -> Draft | str:
        inputs = input_blocks(blocks)
        messages = [body.strip() for name, body in blocks if name == "message"]
        if len(messages) != 1 or not messages[0] or len(inputs) < counts.least:
            return f"one ```message block and {counts.least} different ```input blocks are needed"
        return Draft(_given(start).program, inputs[: counts.most], messages[0])

    def write_proposal_blocks(self, task: Task) -> list[Block]:
        return [("message", task.message), *(("input", pair.input) for pair in task.pairs)]

    def worked_proposal_blocks(self, task: Task) -> list[Block]:
        return [*super().write_proposal_blocks(task), ("message", task.message)]

    def chat_question(self, task: Task) -> str:
        words = self.language.words
        asked = (
            f"Write a {words.name} function {words.function} that fits this message and these input/output pairs; it "
            "will be judged on others."
        )
        shown = [f"{fence('input', pair.input)}\n{fence('output', pair.output)}" for pair in task.shown]
        return "\n\n".join([asked, fence("message", task.message), *shown])

    def answer_form(self) -> str:
        words = self.language.words
        return f"one ```{words.fence} block that defines {words.function}"

    def write_answer_block(self, task: Task) -> Block:
        return self.language.words.fence, task.program

    def write_question(self, task: Task) -> str:
        """Returns the message and all examples: the shown ones first, then the hidden ones."""
        message = "\n".join(self.language.comment(line) for line in task.message.splitlines())
        examples = "\n".join(self.language.equation(pair.input, pair.output) for pair in task.pairs)
        return f"{message}\n{examples}"

    def read_question(self, lines: Sequence[str]) -> Question | None:
        mark = self.language.comment("").strip()
        pairs: list[Pair] = []
        for line in lines:
            if line and not line.startswith(mark):
                pair = self.language.read_equation(line)
                if pair is None:
                    return None
                pairs.append(pair)
        if len(pairs) < 2:
            raise QuestionError(
                "at least two examples are needed: the first half is shown, the others judge the answer"
            )
        message = " ".join(line.lstrip(mark).strip() for line in lines if line.startswith(mark))
        return Question(kind=self.name, program="", pairs=tuple(pairs), message=message or NO_MESSAGE)


def _in_a_line(message: str) -> str:
    """Returns a message as completion prompts have it, where it is one comment. In a chat it may have more lines."""
    return " ".join(message.split())


def _given(start: Task | None) -> Task:
    """Returns the task whose program a proposal starts from. Raises ValueError if there is none."""
    if start is None:
        raise ValueError("a proposal of this kind starts from a program")
    return start
