"""What a person is told before anything is loaded."""

from __future__ import annotations

from transformers import AutoConfig

from redqueen.config import SamplingConfig
from redqueen.run.session import beyond_positions


def test_texts_that_are_longer_than_the_base_was_made_for_are_said() -> None:
    shell = AutoConfig.for_model("llama", max_position_embeddings=1000)
    assert beyond_positions(SamplingConfig(attempt_tokens=1000, proposal_tokens=1000), shell) == []
    (line,) = beyond_positions(SamplingConfig(attempt_tokens=1001, proposal_tokens=1000), shell)
    assert "sampling.attempt_tokens=1001, and this base was made for texts of 1,000 tokens" in line
