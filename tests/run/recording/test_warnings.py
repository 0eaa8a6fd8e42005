"""The warnings that one side wins everything, that no proposal is valid, that sampler and learner drift apart."""

from __future__ import annotations

import io
from contextlib import closing

from rich.console import Console

from redqueen.method.results import Game
from redqueen.run.recording.metrics import step_metrics
from redqueen.run.recording.terminal import Heartbeat, LineReporter
from redqueen.run.recording.warnings import AGAIN, GAP, ONE_SIDED_STEPS, Mismatch, NoValid, OneSided, summary, why
from redqueen.store.metrics import StepMetrics
from tests.run.recording.steps import MATCH, full, record


def counts(student: int = 0, draw: int = 0, teacher: int = 0) -> dict[str, int]:
    return {"student": student, "draw": draw, "teacher": teacher}


def warnings(steps: list[dict[str, int]]) -> list[int]:
    """The steps, counted from 1, after which there is a warning."""
    one_sided = OneSided()
    return [number for number, outcomes in enumerate(steps, 1) if one_sided.warning(outcomes)]


def test_a_stretch_is_announced_once_and_a_new_one_again() -> None:
    stretch = [counts(student=2)] * (ONE_SIDED_STEPS + 5)
    assert warnings(stretch) == [ONE_SIDED_STEPS]
    assert warnings([*stretch, counts(student=1, teacher=1), *stretch]) == [
        ONE_SIDED_STEPS,
        ONE_SIDED_STEPS + 5 + 1 + ONE_SIDED_STEPS,
    ]


def test_draws_and_the_other_side_end_a_stretch_and_a_step_without_games_does_not() -> None:
    some = [counts(teacher=1)] * (ONE_SIDED_STEPS - 1)
    for end in (counts(draw=1), counts(student=1), counts(teacher=1, draw=1)):
        assert warnings([*some, end, *some]) == []
    assert warnings([*some, counts(), counts(teacher=3)]) == [ONE_SIDED_STEPS + 1]
    assert warnings([counts(draw=1)] * 2 * ONE_SIDED_STEPS) == []
    assert warnings([counts(student=1), *some, counts(teacher=1)]) == [ONE_SIDED_STEPS + 1]


def test_the_terminal_says_it() -> None:
    console = Console(file=io.StringIO(), width=200)
    with closing(LineReporter(console, ONE_SIDED_STEPS, Heartbeat(print))) as reporter:
        for step in range(ONE_SIDED_STEPS):
            reporter.record(record(step, games=(Game(match=MATCH, score=0.5, outcome="student"),)))
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    assert printed.count("warning: students have won every game for 10 steps") == 1


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


def step(valid: float | None, **statuses: int) -> StepMetrics:
    """Returns a step of which only what the warning looks at is there."""
    return {
        "valid_rate": valid,
        "statuses": {"proposals": statuses, "attempts": {}},
        "truncated_rate": {"proposals": 0.5, "attempts": None},
    }


def test_two_steps_without_a_valid_proposal_are_said_with_reasons_and_then_again_sometimes() -> None:
    watch = NoValid()
    said = [watch.warning(step(0.0, malformed=20, error=3)) for _ in range(AGAIN + 2)]
    assert [number for number, text in enumerate(said, 1) if text] == [2, 2 + AGAIN]
    first = said[1] or ""
    assert "for 2 steps, so nothing is learnt: 40 malformed, 6 error (50% of all were cut off" in first
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
    empty: StepMetrics = {**step(None), "truncated_rate": {"proposals": None, "attempts": None}}
    assert why([empty]) == "there were no proposals"
