from __future__ import annotations

import pytest

from redqueen.config import Config, GameConfig, SamplingConfig
from redqueen.method.prompt_lengths import prompt_lengths
from redqueen.records import Prompt, PromptLengths


def words(prompt: Prompt) -> int:
    return len(prompt.text.split())


def lengths_of(**game: object) -> PromptLengths:
    config = Config(game=GameConfig(**game), sampling=SamplingConfig(proposal_tokens=1))  # type: ignore[arg-type]
    return prompt_lengths(config.play_settings, words)


def test_a_teachers_prompt_is_longer_with_more_references() -> None:
    few = lengths_of(references=1)
    many = lengths_of(references=4)
    assert many.proposal > few.proposal
    assert many.attempt == few.attempt


def test_a_students_prompt_is_longer_with_worked_tasks() -> None:
    assert lengths_of(shots=3).attempt > lengths_of(shots=0).attempt


def test_the_longest_kind_counts() -> None:
    kinds = ("code_o", "code_i", "code_f")
    alone = [lengths_of(kinds=(kind,)) for kind in kinds]
    together = lengths_of(kinds=kinds)
    assert together.proposal == max(lengths.proposal for lengths in alone)
    assert together.attempt == max(lengths.attempt for lengths in alone)


@pytest.mark.parametrize("limit", [1, 5000])
def test_a_task_may_be_as_long_as_what_a_teacher_may_write(limit: int) -> None:
    config = Config(sampling=SamplingConfig(proposal_tokens=limit))
    assert prompt_lengths(config.play_settings, words).attempt >= limit
