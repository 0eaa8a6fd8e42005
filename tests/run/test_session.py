"""What a person is told before anything is loaded."""

from __future__ import annotations

import pytest
from transformers import AutoConfig

from redqueen.run.session import too_long_for


@pytest.mark.parametrize(
    ("longest", "expected"),
    [
        (100, []),
        (101, ["sliding window has 100"]),
        (1001, ["sliding window has 100", "was made for 1,000 (max_position_embeddings)"]),
    ],
)
def test_texts_that_are_too_long_for_the_base_are_said(longest: int, expected: list[str]) -> None:
    shell = AutoConfig.for_model("mistral", sliding_window=100, max_position_embeddings=1000)
    lines = too_long_for(shell, longest)
    assert len(lines) == len(expected)
    assert all(part in line for part, line in zip(expected, lines, strict=True))
    assert all(f"{longest:,} tokens" in line and "sampling.attempt_tokens" in line for line in lines)
