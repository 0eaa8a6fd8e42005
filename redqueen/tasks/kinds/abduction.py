"""Abduction: the student sees a program and an output, and finds an input that gives it. Any such input is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from redqueen.jail import Outcome
from redqueen.records import Pair, Prompt, Task, Verdict
from redqueen.tasks.kinds.kind import (
    LINE,
    Answer,
    Block,
    InputCounts,
    Question,
    TaskKind,
    Trial,
    attempt_verdict,
    fence,
    program_above,
)
from redqueen.tasks.kinds.telling import holds
from redqueen.tasks.kinds.work import WorkedText, Workings


class Abduction(TaskKind):
    """The program runs on the answer, and once more on the input that its output was recorded for."""

    title = "find an input that gives the output"
    puzzle = "find the input"
    asks = "an input is asked"
    runs_program = True

    # A task answers for itself while it is played. The recorded input runs in a child of its own, whose request is the
    # one of validation: it holds no answer, and nothing in it says that somebody is being graded. In one child with the
    # answer, a program could count its calls, and the order in which the two came would decide about the answer.
    def trial(self, answer: Answer, text: str) -> Trial | Verdict:
        spelling = self.language.spell_input(text)
        answered = self.language.job(answer.program, (text,), expected=answer.expected, one_processor=True)
        if not answer.inputs:
            return Trial(jobs=(answered,), verdict=lambda outcomes: attempt_verdict(outcomes[0]))
        again = self.language.job(answer.program, answer.inputs, expected=answer.expected, one_processor=True)
        same = spelling == self.language.spell_input(answer.inputs[0])
        return Trial(jobs=(answered, again), verdict=lambda outcomes: abduction_verdict(*outcomes, same=same))

    def told(self, task: Task) -> bool:
        return holds(task.program, task.pairs[0].input, given=task.pairs[0].output)

    def question(self, task: Task) -> Prompt:
        return Prompt(f"{self.posed(task)}\n{self.language.ask_input(task.pairs[0].output)}", LINE)

    def write_answer(self, task: Task) -> str:
        return self.language.write_input(task.pairs[0].input)

    def read_answer(self, text: str) -> str | None:
        return self.language.read_input(text.strip())

    def write_work(self, task: Task, workings: Workings) -> str | None:
        # Each input that is tried is followed by what the program does with it. The last one is the answer.
        misses = workings.misses(task) if self._opening else ()
        tries = [*(pair.input for pair in misses), task.pairs[0].input]
        parts: list[str] = []
        for given in tries:
            lines = workings.trace(task, given)
            if lines is None:
                return None
            parts += [self.language.call(given), *lines]
        # The prompt holds the beginning of the first call.
        return "\n".join(parts).removeprefix(self._opening)

    def read_work(self, text: str) -> WorkedText:
        lines = text.strip("\n").split("\n")
        calls = [number for number, line in enumerate(lines) if number and self._tried(line) is not None]
        place = calls[-1] if calls else 0
        answer = self._tried(lines[place]) if place else self.read_answer(lines[0])
        # The prompt has the beginning of the first call.
        first = [f"{self._opening}{lines[0]}"] if place else []
        work = "\n".join([*first, *lines[1:place], *lines[place + 1 :]])
        return WorkedText(work=work, answer=answer)

    def _tried(self, line: str) -> str | None:
        """Returns the input that a line of work tries, None if it tries none."""
        # Where a call has no beginning, no later line can be told to be one.
        if not self._opening or not line.startswith(self._opening):
            return None
        return self.language.read_input(line.removeprefix(self._opening).strip())

    @property
    def _opening(self) -> str:
        """What stands before the input of a call."""
        return self.language.call("").removesuffix(")")

    def goal(self, counts: InputCounts) -> str:
        del counts
        return (
            f"Invent a {self.language.words.name} program and an input such that, from program and output alone, an "
            "input that gives this output takes real reasoning to find."
        )

    def chat_question(self, task: Task) -> str:
        words = self.language.words
        asked = f"Find an input for which {words.function} returns this output; any that does is right."
        return "\n\n".join([asked, fence(words.fence, self.posed(task)), fence("output", task.pairs[0].output)])

    def answer_form(self) -> str:
        return f"one ```input block with the arguments as {self.language.words.name} literals, comma-separated"

    @property
    def answer_block(self) -> str:
        return "input"

    def write_answer_block(self, task: Task) -> Block:
        return "input", task.pairs[0].input

    def write_question(self, task: Task) -> str:
        return f"{task.program}\n{self.language.equation('?', task.pairs[0].output)}"

    def read_question(self, lines: Sequence[str]) -> Question | None:
        output = self.language.read_input_gap(lines[-1].strip())
        if output is None:
            return None
        return Question(kind=self.name, program=program_above(lines), pairs=(Pair("", output),))

    def written(self, answer: str) -> str:
        # A completion prompt ends with the opening parenthesis of the call.
        return f"{self._opening}{answer}" if answer.endswith(")") else answer.strip()

    def answered(self, answer: str) -> str:
        return self.language.call(answer.strip())

    def recorded_answer(self, task: Task) -> str:
        return self.language.call(task.pairs[0].input)

    def miss(self, verdict: Verdict) -> str:
        return f"{self.language.words.function.strip('`')} gives {verdict.output}"


def abduction_verdict(answered: Outcome, again: Outcome, same: bool) -> Verdict:
    """What running a program on the answer and, once more, on the recorded input says about the attempt.

    `same` says whether the answer is the recorded input. The verdict `nondeterministic` is about the task.
    """
    if again.status == "infra_error":
        return attempt_verdict(again)
    verdict = attempt_verdict(answered)
    if again.status != "ok":
        what = "another output" if again.status == "wrong" else f"{again.status}: {again.detail}"
        return replace(verdict, status="nondeterministic", detail=f"the recorded input now gives {what}")
    # Right for the one and wrong for the other, of one and the same input.
    if same and verdict.status not in ("correct", "infra_error"):
        return replace(
            verdict, status="nondeterministic", detail=f"the recorded input gives two outputs: {verdict.detail}"
        )
    return verdict
