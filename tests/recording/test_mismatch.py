"""The warning that sampler and learner drift apart."""

from redqueen.recording.metrics import step_metrics
from redqueen.recording.mismatch import AGAIN, GAP, Mismatch
from redqueen.runs.metrics import StepMetrics
from tests.recording.steps import full


def line(gap: float | None) -> StepMetrics:
    metrics = step_metrics(full())
    metrics["importance_ratio"]["S0"] = {"mean": 1.0, "std": 0.5, "clipped": 0.0, "gap": gap}
    return metrics


def test_a_gap_is_announced_with_the_worst_member_and_again_after_a_while() -> None:
    mismatch = Mismatch()
    assert mismatch.warning(line(GAP)) is None
    assert mismatch.warning(line(None)) is None
    first = mismatch.warning(line(0.31))
    assert first is not None
    assert "S0" in first
    assert "0.31 nats" in first
    later = [mismatch.warning(line(0.4)) for _ in range(AGAIN + 1)]
    assert [warning is not None for warning in later] == [False] * AGAIN + [True]
