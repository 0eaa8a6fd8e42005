"""What of a memory plan an evaluation takes."""

from __future__ import annotations

from redqueen.config.recipes import recipe
from redqueen.members.evaluating import sized


def test_an_evaluation_has_the_planned_batches_and_the_runs_own_limits() -> None:
    config = recipe("coder_7b")
    planned = config.override(["sampling.batch_rows=64", "sampling.cache_tokens=6400", "sampling.prefill_tokens=4096"])
    fitted = planned.with_values("sampling", attempt_tokens=2048)
    assert sized(config.sampling, fitted.sampling) == planned.sampling
