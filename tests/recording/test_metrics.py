"""The line of a step in metrics.jsonl: nulls where there is nothing to average, and plain JSON in any case."""

from __future__ import annotations

import json

from redqueen.recording.metrics import step_metrics
from redqueen.records import MemberUpdate
from tests.recording.steps import record


def test_a_step_without_proposals_has_nulls_and_no_division_by_zero() -> None:
    line = step_metrics(record(3))
    assert line["step"] == 3
    assert line["valid_rate"] is None
    assert line["solve_rate"] is None
    assert line["entropy"] is None


def test_a_skipped_member_leaves_plain_json() -> None:
    nan = float("nan")
    update = MemberUpdate(
        member="T0",
        loss=nan,
        grad_norm=nan,
        adapter_norm=1.0,
        entropy=nan,
        logprob_gap=nan,
        tokens=7,
        skipped="non-finite gradient",
    )
    line = step_metrics(record(3, updates=(update,)))
    assert json.loads(json.dumps(line, allow_nan=False))["grad_norm"] == {"T0": None}
    assert line["skipped"] == {"T0": "non-finite gradient"}


def test_entropy_is_weighted_by_tokens() -> None:
    updates = [
        MemberUpdate(member=m, loss=0.0, grad_norm=1.0, adapter_norm=1.0, entropy=e, logprob_gap=0.0, tokens=n)
        for m, e, n in (("T0", 1.0, 30), ("S0", 2.0, 10))
    ]
    assert step_metrics(record(3, updates=tuple(updates)))["entropy"] == 1.25
