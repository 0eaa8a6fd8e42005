"""Weights are normalised over one member's samples."""

from __future__ import annotations

from redqueen.engine.learning.learner import token_weights
from redqueen.records import Sample


def _sample(member: str, tokens: int) -> Sample:
    return Sample(member=member, prompt_ids=(1,), token_ids=(2,) * tokens, logprobs=(0.0,) * tokens, advantage=1.0)


def test_token_mean_weighs_every_token_of_a_member_alike() -> None:
    weights = token_weights([_sample("a", 3), _sample("a", 1), _sample("b", 2)], "token_mean")
    assert weights == [1 / 4, 1 / 4, 1 / 2]


def test_sequence_mean_weighs_every_sequence_of_a_member_alike() -> None:
    weights = token_weights([_sample("a", 3), _sample("a", 1), _sample("b", 2)], "sequence_mean")
    assert weights == [1 / 6, 1 / 2, 1 / 2]
