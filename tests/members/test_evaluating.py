"""What of a memory plan an evaluation takes."""

from __future__ import annotations

from redqueen.config.recipes import recipe
from redqueen.members.evaluating import sized


def test_an_evaluation_has_the_planned_batches_and_the_runs_own_limits() -> None:
    config = recipe("coder_7b")
    fitted = config.override(
        ["sampling.batch_rows=64", "sampling.cache_tokens=6400", "sampling.prefill_tokens=4096", "model.workers=1"]
    ).with_values("sampling", attempt_tokens=2048)
    made = sized(config, fitted)
    assert made == config.override(
        ["sampling.batch_rows=64", "sampling.cache_tokens=6400", "sampling.prefill_tokens=4096", "model.workers=1"]
    )
