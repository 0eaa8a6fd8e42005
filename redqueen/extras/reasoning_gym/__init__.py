"""Generators of the library reasoning-gym as kinds of tasks, for students alone (extra `gym`).

There is a kind for each generator and its settings, made when it is named: `reasoning_gym:chain_sum:max_terms=3`.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from redqueen.base.optional import require
from redqueen.config.keys import did_you_mean
from redqueen.jail import GAME, Job, Limits, LiteralError, Outcome, parse_literal, to_literal
from redqueen.records import Draft, Pair, Prompt, Proposal, Task, Verdict
from redqueen.tasks.kinds.calls import Calls
from redqueen.tasks.kinds.kind import (
    BLOCK,
    LINE,
    Answer,
    InputCounts,
    QuestionKind,
    Trial,
    attempt_verdict,
)
from redqueen.tasks.kinds.language import Half, SeedError, Words, halved

# The one kind of task that a generator has: answer its question. The library's own scorer is the judge.

# A generator of reasoning-gym in the place of a language: its programs are questions, which the library makes.
#
# A task's program is the question, its input says which item of which generator it is, and its output is the answer
# that the library recorded. The library is asked in the jail, where it makes the item again: whether the question is
# the item's, and what an answer scores. Some of its scorers evaluate answers as Python.

SOURCE = "reasoning_gym"
EXTRA = "gym"
SEEDS = 1024
"""Items that a run's task bank is filled with, of each generator."""
HELD_OUT = 400
"""Items that are only measured on. None of the others asks one of their questions."""
_FIRST_HELD_OUT = 1_000_000

# Each name below is also a piece of a command line, so it has no sign that a shell or a list of settings would take.
_NAME = re.compile(rf"{SOURCE}:(?P<dataset>\w+)(?P<settings>(?::\w+=[^:,]+)*)")
_CHILD = Path(__file__).with_name("child")
_ASKED = "import gym_child\nf = gym_child.answer_of"
_SCORED = "import gym_child\nf = gym_child.score_of"
# A scorer may simplify formulas, and sympy takes its time.
_LIMITS = Limits(cpu_s=4, wall_s=60, memory_mb=1024, output_bytes=1 << 16, input_bytes=1 << 17)


class Generator(Calls):
    """One generator with its settings (see `redqueen.tasks.kinds.language.Language`)."""

    words = Words(name="", fence="question", function="", rules="")
    identity = Draft("", ())

    def __init__(self, name: str, dataset: str, settings: dict[str, Any]) -> None:
        self.name = name
        self.dataset = dataset
        """What the library calls it, e.g. `chain_sum`."""
        self.settings = settings
        """The settings that differ from the library's own."""
        # The game's rules, with the library loaded. They are equal, so that one sandbox serves all generators.
        paths = (str(_CHILD), *(path for path in sys.path if path))
        self.profile = replace(GAME, modules=("gym_child",), paths=paths)

    def fingerprint(self, program: str) -> str:
        return hashlib.sha256(program.encode("utf-8", "surrogatepass")).hexdigest()

    def job(
        self,
        program: str,
        inputs: Sequence[str],
        *,
        validate: bool = False,
        expected: tuple[bytes, ...] | None = None,
        one_processor: bool = False,
    ) -> Job:
        """Returns the job that gives the recorded answers, if the program is the question of these items."""
        del validate, one_processor
        asked = tuple(f"{given}, {to_literal(program)}" for given in inputs)
        return Job(_ASKED, asked, expected=expected, limits=_LIMITS)

    def score(self, given: str, answer: str) -> Job:
        """Returns the job that gives what the library's own scorer says about an answer to an item."""
        return Job(_SCORED, (f"{given}, {to_literal(answer)}",), limits=_LIMITS)

    def call(self, given: str) -> str:
        return given

    def split_calls(self, text: str) -> tuple[str, tuple[str, ...]]:
        return text, ()

    def seeds(self, own: str | None = None) -> tuple[Draft, ...]:
        if own is not None:
            raise SeedError(f"game.seeds={own}: {self.name} makes its own tasks; leave game.seeds out")
        return _drafts(self.name, 0, SEEDS)

    def reserved(self, half: Half | None = None) -> tuple[Draft, ...]:
        return halved(_drafts(self.name, _FIRST_HELD_OUT, HELD_OUT), half)


def generator_of(name: str) -> Generator | None:
    """Returns the generator that a name means, e.g. `reasoning_gym:chain_sum:max_terms=3`; None if it is none."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    settings = dict(setting.split("=", 1) for setting in match["settings"].split(":") if setting)
    return Generator(name, match["dataset"], {key: _value(text) for key, text in settings.items()})


_JSON = {"True": "true", "False": "false", "None": "null"}
"""JSON's words for Python's: a generator takes any text that is not empty for true, also "False"."""


def _value(text: str) -> Any:
    try:
        return json.loads(_JSON.get(text, text))
    except ValueError:
        return text


@cache
def _drafts(name: str, first: int, count: int) -> tuple[Draft, ...]:
    """Returns the different questions among `count` items. Raises SeedError if the library cannot make them."""
    generator = generator_of(name)
    assert generator is not None
    library = require(SOURCE, EXTRA, f"the kind {name}")
    datasets = sorted(library.factory.DATASETS)
    if generator.dataset not in datasets:
        guess = did_you_mean(generator.dataset, datasets) or ", and none is like it"
        raise SeedError(f"{SOURCE} has no generator '{generator.dataset}'{guess}")
    drafts: dict[str, Draft] = {}
    settings = to_literal(generator.settings)
    for item in range(first, first + count):
        try:
            entry = library.create_dataset(generator.dataset, size=1, seed=item, **generator.settings)[0]
        except Exception as error:
            # It has no error of its own: an assertion is a setting that it refuses, a TypeError one that it lacks.
            raise SeedError(f"{name}: {SOURCE} cannot make it: {type(error).__name__}: {error}") from error
        question = str(entry["question"])
        given = f"{to_literal(generator.dataset)}, {settings}, {item}"
        drafts.setdefault(question, Draft(question, (given,)))
    return tuple(drafts.values())


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


class Answering(QuestionKind):
    """The student sees a question and answers it. It is right if the library scores it with 1."""

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
        # A blank text is never read as an answer.
        if not str(parse_literal(pairs[0].output)).strip():
            return Verdict("error", detail="no text that scores 1"), None
        return super().made(proposal, pairs, verdict, counts)

    def trial(self, answer: Answer, text: str) -> Trial | Verdict:
        allowed = EVALUATED.get(self.generator.dataset)
        if allowed is not None and not allowed.fullmatch(text):
            return Verdict("wrong", output=text, detail="it has signs that no answer has")
        return Trial(jobs=(self.generator.score(answer.inputs[0], text),), verdict=_scored)

    def question(self, task: Task) -> Prompt:
        return Prompt(f"{self.heading}\n{task.program.rstrip()}\nAnswer:", BLOCK if "\n" in _recorded(task) else LINE)

    def answer_form(self) -> str:
        return f"one ```{self.answer_block} block with the answer and nothing else"

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
