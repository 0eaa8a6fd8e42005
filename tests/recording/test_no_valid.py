"""The warning that no proposal is valid, so that nobody learns."""

from __future__ import annotations

from redqueen.recording.no_valid import AGAIN, NoValid, summary, why
from redqueen.runs.metrics import StepMetrics


def step(valid: float | None, **statuses: int) -> StepMetrics:
    """Returns a step of which only what the warning looks at is there."""
    return {  # type: ignore[typeddict-item]
        "valid_rate": valid,
        "statuses": {"proposals": statuses, "attempts": {}},
        "truncated_rate": {"proposals": 0.5, "attempts": None},
    }


def test_two_steps_without_a_valid_proposal_are_said_with_reasons_and_then_again_sometimes() -> None:
    watch = NoValid()
    said = [watch.warning(step(0.0, malformed=20, error=3)) for _ in range(AGAIN + 2)]
    assert [number for number, text in enumerate(said, 1) if text] == [2, 2 + AGAIN]
    first = said[1] or ""
    assert "for 2 steps, so nobody learns: 40 malformed, 6 error (50% of all were cut off" in first
    assert "redqueen warm-start" in first
    assert "\n" not in first


def test_a_valid_proposal_ends_the_stretch() -> None:
    watch = NoValid()
    rates = [0.0, 0.1, 0.0, None, 0.2]
    assert [bool(watch.warning(step(rate, malformed=1))) for rate in rates] == [False, False, False, True, False]


def test_a_run_says_at_its_end_that_nobody_learnt() -> None:
    assert summary([step(0.1), step(0.1), step(0.0)], "runs/x") is None
    text = summary([step(0.1), step(0.0, malformed=4)], "runs/x") or ""
    assert "1 of 2 steps had no valid proposal" in text
    assert "redqueen show runs/x --worst" in text


def test_why_says_when_there_was_nothing() -> None:
    empty: StepMetrics = {**step(None), "truncated_rate": {"proposals": None, "attempts": None}}  # type: ignore[typeddict-item]
    assert why([empty]) == "there were no proposals"
