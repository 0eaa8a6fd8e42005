"""Lessons: what is learnt is exactly the text that a member would have to write, in the game's own format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.config import GameConfig
from redqueen.engine.model.base import Base
from redqueen.engine.model.source import encode
from redqueen.method.prompts import prompts
from redqueen.method.warm_start import Lessons, common_prefix
from redqueen.records import Kind, Sample, Task
from redqueen.tasks.python import NAMES

PROMPTS = prompts("completion", GameConfig())


@pytest.fixture
def lessons(new_base: Callable[..., Base]) -> Lessons:
    return Lessons("warm", PROMPTS, new_base("llama").tokenizer)


def text_of(lessons: Lessons, sample: Sample) -> str:
    return lessons.tokenizer.decode([*sample.prompt_ids, *sample.token_ids])


@pytest.mark.parametrize("kind", NAMES)
def test_a_proposal_is_learnt_with_the_references_that_are_proposals_too(
    lessons: Lessons, seed_tasks: dict[Kind, list[Task]], kind: Kind
) -> None:
    task, *references = seed_tasks[kind][:3]
    sample = lessons.proposal(task, references, 3.0)
    prompt = PROMPTS.propose(kind, references, task if kind == "code_f" else None)
    whole = prompt.text + PROMPTS.write_proposal(task) + prompt.stop[0]
    assert text_of(lessons, sample) == whole
    assert (len(sample.prompt_ids), sample.advantage, sample.member) == (1, 3.0, "warm")
    assert sample.logprobs == (), "nobody sampled it"


def test_of_a_proposal_in_a_chat_only_the_answer_is_learnt(
    new_base: Callable[..., Base], seed_tasks: dict[Kind, list[Task]]
) -> None:
    base = new_base("llama")
    base.tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    chat = Lessons("warm", prompts("chat", GameConfig()), base.tokenizer)
    task = seed_tasks["code_o"][0]
    sample = chat.proposal(task, (), 1.0)
    assert sample.prompt_ids == encode(base.tokenizer, chat.prompts.propose("code_o", (), None))
    assert task.program in base.tokenizer.decode(sample.token_ids)


def test_answers_about_one_program_share_it_as_their_prompt(
    lessons: Lessons, seed_tasks: dict[Kind, list[Task]]
) -> None:
    whole = seed_tasks["code_f"][0]
    tasks = [
        replace(whole, kind="code_i" if number % 2 else "code_o", pairs=(pair,))
        for number, pair in enumerate(whole.pairs[:4])
    ]
    samples = lessons.answers(tasks, 2.0)
    assert len({sample.prompt_ids for sample in samples}) == 1
    shared = lessons.tokenizer.decode(samples[0].prompt_ids)
    assert shared.startswith(f"{whole.program}\nassert")
    for task, sample in zip(tasks, samples, strict=True):
        prompt = PROMPTS.attempt(task, ())
        assert text_of(lessons, sample) == prompt.text + prompt.prefix + PROMPTS.write_attempt(task) + "\n"
        assert sample.advantage == 2.0


def test_of_answers_alone_no_question_is_learnt(lessons: Lessons, seed_tasks: dict[Kind, list[Task]]) -> None:
    whole = seed_tasks["code_f"][0]
    tasks = [replace(whole, kind="code_o", pairs=(pair,)) for pair in whole.pairs[:2]]
    for task, sample in zip(tasks, lessons.answers(tasks, 2.0, alone=True), strict=True):
        prompt = PROMPTS.attempt(task, ())
        assert sample.prompt_ids == encode(lessons.tokenizer, prompt)
        answered = PROMPTS.write_attempt(task).removeprefix(prompt.prefix)
        assert lessons.tokenizer.decode(sample.token_ids) == answered + prompt.stop[0]
    assert lessons.answers([], 2.0) == []


def test_a_written_function_is_learnt_from_the_whole_question(
    lessons: Lessons, seed_tasks: dict[Kind, list[Task]]
) -> None:
    task = seed_tasks["code_f"][1]
    (sample,) = lessons.answers([task], 1.0)
    prompt = PROMPTS.attempt(task, ())
    assert sample.prompt_ids == encode(lessons.tokenizer, prompt)
    assert lessons.tokenizer.decode(sample.token_ids) == task.program.removeprefix(prompt.prefix) + prompt.stop[0]


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple), min_size=1, max_size=5))
def test_a_common_prefix_is_common_and_the_longest(sequences: list[tuple[int, ...]]) -> None:
    length = common_prefix(sequences)
    shortest = min(map(len, sequences))
    if length > 1:
        assert len({sequence[:length] for sequence in sequences}) == 1
    assert length == shortest or length == 1 or len({sequence[: length + 1] for sequence in sequences}) > 1
