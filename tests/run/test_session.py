"""What a person is told before anything is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoConfig

from redqueen.config import SamplingConfig
from redqueen.records import PromptLengths
from redqueen.run.session import _writing, too_long
from redqueen.store.directory import RunDirectory, RunError

LENGTHS = PromptLengths(proposal=100, attempt=200)


def test_texts_that_are_longer_than_the_base_was_made_for_are_said() -> None:
    shell = AutoConfig.for_model("llama", max_position_embeddings=1000)
    assert too_long(SamplingConfig(attempt_tokens=1000, proposal_tokens=1000), LENGTHS, shell, hosted=False) == []
    (line,) = too_long(SamplingConfig(attempt_tokens=1001, proposal_tokens=1000), LENGTHS, shell, hosted=False)
    assert "sampling.attempt_tokens=1001, and this base was made for texts of 1,000 tokens" in line


def test_texts_that_the_base_refuses_are_said() -> None:
    sampling = SamplingConfig(attempt_tokens=900, proposal_tokens=1000)
    # Transformers' modules have learned positions, or frequencies of LongRoPE.
    shell = AutoConfig.for_model("phi", max_position_embeddings=1024)
    (line,) = too_long(sampling, LENGTHS, shell, hosted=True)
    assert "a prompt and its text may have 1,100 tokens, and this base takes 1,024 at most" in line
    shell = AutoConfig.for_model("mistral", sliding_window=1099)
    (line,) = too_long(sampling, LENGTHS, shell, hosted=False)
    assert "this base takes 1,099 at most" in line
    assert too_long(sampling, LENGTHS, shell, hosted=True) == []


def test_a_run_whose_folder_was_removed_is_not_called_unstarted(tmp_path: Path) -> None:
    with (
        pytest.raises(RunError, match="run is gone: it was renamed or removed while the run trained"),
        _writing(RunDirectory(tmp_path / "run")),
    ):
        (tmp_path / "run" / "now.json").write_text("")
