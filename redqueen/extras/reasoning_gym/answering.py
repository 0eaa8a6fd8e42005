"""The one kind of task that a generator has: answer its question. The library's own scorer is the judge."""

from __future__ import annotations

import re
from collections.abc import Sequence

from redqueen.extras.reasoning_gym.generator import Generator, generator_of
from redqueen.jail import Job, LiteralError, Outcome, parse_literal
from redqueen.records import Draft, Pair, Prompt, Proposal, Task, Verdict
from redqueen.tasks.kinds.kind import (
    BLOCK,
    LINE,
    Answer,
    Block,
    InputCounts,
    TaskKind,
    Trial,
    attempt_verdict,
)

_WORDS = "asinh?|acosh?|atanh?|sinh?|cosh?|tanh?|exp|log|ln|sqrt|[A-Za-z]"
EVALUATED = {
    **dict.fromkeys(("binary_matrix", "n_queens", "spiral_matrix", "string_insertion"), re.compile(r"[A-Z\d_\s]*")),
    **dict.fromkeys(("countdown", "puzzle24"), re.compile(r"[\d\s.()+*/-]*")),
    **dict.fromkeys(
        ("intermediate_integration", "polynomial_multiplication", "simple_integration"),
        re.compile(rf"(?:[\d\s()+*/^-]|\.\d|\b(?:{_WORDS})\b)*"),
    ),
}
"""What an answer may consist of where the library's scorer evaluates it as Python: too little to say anything but the
answer. Everything else is wrong, and no scorer sees it."""


class Answering(TaskKind):
    """The student sees a question and answers it. It is right if the library scores it with 1."""

    title = "answer the question"
    puzzle = "answer the question"
    generated = True
    guessable = False

    def __init__(self, name: str, language: Generator) -> None:
        super().__init__(name, language)
        self.generator = language

    def job(self, draft: Draft) -> Job | Outcome:
        return self.generator.job(draft.program, draft.inputs)

    def made(
        self, proposal: Proposal, pairs: tuple[Pair, ...], verdict: Verdict, counts: InputCounts
    ) -> tuple[Verdict, Task | None]:
        if len(pairs) != 1:
            return Verdict("malformed", detail="a question is one item of a generator"), None
        return super().made(proposal, pairs, verdict, counts)

    def trial(self, answer: Answer, text: str) -> Trial | Verdict:
        allowed = EVALUATED.get(self.generator.dataset)
        if allowed is not None and not allowed.fullmatch(text):
            return Verdict("wrong", output=text, detail="it has signs that no answer has")
        return Trial(jobs=(self.generator.score(answer.inputs[0], text),), verdict=_scored)

    def question(self, task: Task) -> Prompt:
        return Prompt(f"{self.heading}\n{task.program.rstrip()}\nAnswer:", BLOCK if "\n" in _recorded(task) else LINE)

    def write_answer(self, task: Task) -> str:
        return f" {_recorded(task)}"

    def chat_question(self, task: Task) -> str:
        return task.program

    def answer_form(self) -> str:
        return f"one ```{self.answer_block} block with the answer and nothing else"

    @property
    def answer_block(self) -> str:
        return "answer"

    def write_answer_block(self, task: Task) -> Block:
        return self.answer_block, _recorded(task)

    def write_question(self, task: Task) -> str:
        return task.program

    def recorded_answer(self, task: Task) -> str:
        return _recorded(task)


def _recorded(task: Task) -> str:
    """Returns the answer that the library recorded: one of the right ones."""
    return str(parse_literal(task.pairs[0].output))


def _scored(outcomes: Sequence[Outcome]) -> Verdict:
    outcome = outcomes[0]
    verdict = attempt_verdict(outcome)
    if outcome.status != "ok":
        return verdict
    try:
        score = parse_literal(outcome.outputs[0])
    except LiteralError as error:
        return Verdict("error", detail=str(error), cpu_ms=outcome.cpu_ms)
    right = type(score) is float and score == 1.0
    return Verdict("correct" if right else "wrong", detail=f"scored {score}", cpu_ms=outcome.cpu_ms)


def made_kind(name: str) -> Answering | None:
    """Returns the kind of this name, None if it is not one of a generator. Nothing is imported for it."""
    generator = generator_of(name)
    return None if generator is None else Answering(name, generator)
