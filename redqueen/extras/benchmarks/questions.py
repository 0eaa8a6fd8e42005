r"""`maths`: a person's questions of mathematics (rows of GSM8K or MATH), for students alone.

The judge is the grader of the benchmarks (docs/reports/GRADERS.md). The answer is what the last box of a text holds, or
the text after GSM8K's `####`, or else the last line.
"""

from __future__ import annotations

import atexit
import os
import re
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from redqueen.evals.grader import Problem, boxed_together, last_boxed
from redqueen.extras.benchmarks.latex import are_several, split_answers
from redqueen.extras.benchmarks.maths import MathsGrader, plain
from redqueen.jail import Job, Outcome, parse_literal
from redqueen.records import Answer, Draft, Pair, Prompt, Task, Verdict
from redqueen.tasks.kinds.calls import Calls
from redqueen.tasks.kinds.kind import LINE, QuestionKind, Trial
from redqueen.tasks.kinds.language import SeedError, Words
from redqueen.tasks.kinds.work import WorkedText

NAME = "maths"
_MARK = "####"
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_TYPICAL = Draft(
    "Mia picks 48 apples in the morning and half as many in the afternoon. She gives a third of all her apples to her "
    "neighbours, and puts the others into bags of 8. How many bags does she fill?",
    ("['6']",),
)
"""A question by which the length of prompts is guessed before a file is read; it is never posed."""


class Questions(Calls):
    """Questions in the place of programs (see `redqueen.tasks.kinds.language.Language`)."""

    name = NAME
    words = Words(name="", fence="question", function="", rules="")
    identity = Draft("", ())

    def job(
        self,
        program: str,
        inputs: Sequence[str],
        *,
        validate: bool = False,
        expected: tuple[bytes, ...] | None = None,
        one_processor: bool = False,
    ) -> Job | Outcome:
        del program, inputs, validate, expected, one_processor
        return Outcome(status="forbidden", detail="questions come from a file: game.tasks=FILE (redqueen tasks import)")

    def seeds(self, own: str | None = None) -> tuple[Draft, ...]:
        if own is not None:
            raise SeedError(f"game.seeds={own}: teachers cannot vary questions of {NAME}; use game.tasks=FILE instead")
        return (_TYPICAL,)


class AnswerQuestion(QuestionKind):
    """The student sees a question, and is right if the grader takes its answer for the reference."""

    def has_program(self, task: Task) -> bool:
        return False

    def read_row(self, fields: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
        """Returns the question and the answers of a published row. Raises ValueError that says what to do."""
        question = next((fields[name] for name in ("problem", "question") if isinstance(fields.get(name), str)), "")
        if not question.strip():
            raise ValueError('"question" or "problem" must be a text')
        answers = tuple(answer.strip() for answer in _answers(fields))
        if not answers or not all(answers):
            raise ValueError(
                'it has no answer that can be judged: give "answer", a short text or one that ends in #### and the '
                'number, or a "solution" with a \\boxed{...}'
            )
        return question.strip(), answers

    def answer(self, program: str, pairs: Sequence[Pair], text: str | None) -> Answer:
        expected = tuple(pair.output.encode("utf-8", "surrogatepass") for pair in pairs)
        return Answer(kind=self.name, program=program, inputs=("",), expected=expected, text=text)

    def trial(self, answer: Answer, text: str) -> Trial | Verdict:
        wanted = parse_literal(answer.expected[0].decode("utf-8", "surrogatepass"))
        problem = Problem(id="", benchmark=NAME, prompt=answer.program, data={"answers": tuple(wanted)})
        verdict = _grader(os.getpid()).grade(problem, _final(text, several=are_several(wanted)) or "")
        return Verdict(verdict.status, output=text, detail=verdict.detail, cpu_ms=verdict.cpu_ms)

    def question(self, task: Task) -> Prompt:
        return Prompt(f"{self.heading}\n{_without_blank(task.program)}\nAnswer:", LINE)

    def read_work(self, text: str) -> WorkedText:
        text = text.strip()
        return WorkedText(work=text.rpartition("\n")[0], answer=text or None)

    def answer_form(self) -> str:
        return f"one ```{self.answer_block} block with the final answer and nothing else"

    def recorded_answer(self, task: Task) -> str:
        return ", ".join(parse_literal(task.pairs[0].output))


def _answers(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the answers of a row; () if it has none."""
    final = fields.get("final_answer")
    if isinstance(final, list) and final and str(final[0]).strip():
        return split_answers(str(final[0])) if fields.get("is_multiple_answer") else (str(final[0]),)
    answer = fields.get("answer")
    if isinstance(answer, str) and _MARK in answer:
        return (_THOUSANDS.sub("", answer.rpartition(_MARK)[2].strip()),)
    # A long answer is a solution.
    if isinstance(answer, str) and "\\boxed" in answer:
        return tuple(filter(None, [last_boxed(answer)]))
    if isinstance(answer, str | int | float) and str(answer).strip() and "\n" not in str(answer):
        return plain(fields)
    solution = fields.get("solution")
    boxed = last_boxed(solution) if isinstance(solution, str) else None
    # A text may be a sentence, so it stands for an answer only where there is no other.
    plain_text = str(final).strip() if isinstance(final, str | int | float) and not isinstance(final, bool) else ""
    found = boxed or ("" if plain_text == "nan" or "\n" in plain_text else plain_text)
    return (found,) if found else ()


def _final(text: str, *, several: bool) -> str | None:
    """Returns the answer at the end of a text."""
    if "\\boxed" in text or "\\fbox" in text:
        return boxed_together(text) if several else last_boxed(text)
    # A line behind the mark without a digit is a heading of Markdown.
    behind = text.rpartition(_MARK)[2].partition("\n")[0].strip() if _MARK in text else ""
    if any(map(str.isdigit, behind)):
        return behind
    lines = text.rpartition(_MARK)[2].split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), None)


def _without_blank(text: str) -> str:
    """Returns a question without blank lines, at which completion prompts set tasks apart."""
    return "\n".join(line for line in text.split("\n") if line.strip())


_lock = threading.Lock()


@cache
def _opened(pid: int) -> MathsGrader:
    del pid
    grader = MathsGrader()
    atexit.register(grader.close)
    return grader


def _grader(pid: int) -> MathsGrader:
    """Returns this process's grader, which starts when it is first asked for. A fork does not share its parent's."""
    with _lock:
        return _opened(pid)


def made_kind(name: str) -> AnswerQuestion | None:
    """Returns the kind of this name, None if it is another."""
    return AnswerQuestion(NAME, Questions()) if name == NAME else None
