"""The line of a step in metrics.jsonl: nulls where there is nothing to average, and plain JSON in any case."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from redqueen.records import ImportanceRatio, MemberUpdate
from redqueen.run.recording.metrics import step_metrics
from tests.run.recording.steps import full, record


def test_a_step_without_proposals_has_nulls_and_no_division_by_zero() -> None:
    line = step_metrics(record(3))
    assert line["step"] == 3
    assert line["valid_rate"] is None
    assert line["solve_rate"] is None
    assert line["entropy"] == {"teacher": {}, "student": {}}


def test_a_skipped_member_leaves_plain_json() -> None:
    nan = float("nan")
    update = MemberUpdate(
        member="T0",
        loss=nan,
        grad_norm=nan,
        adapter_norm=1.0,
        logprob_gap=nan,
        tokens=7,
        ratio=ImportanceRatio(mean=nan, std=nan, clipped=0.0),
        skipped="non-finite gradient",
    )
    line = step_metrics(record(3, updates=(update,)))
    assert json.loads(json.dumps(line, allow_nan=False))["grad_norm"] == {"T0": None}
    assert line["importance_ratio"] == {"T0": {"mean": None, "std": None, "clipped": 0.0, "gap": None}}
    assert line["skipped"] == {"T0": "non-finite gradient"}


def test_the_entropy_is_each_members_own_over_all_tokens_that_it_sampled() -> None:
    # T0 wrote three proposals of three tokens at -1 each, whatever became of them; S0 three attempts of two tokens.
    step = full()
    assert step_metrics(step)["entropy"] == {"teacher": {"T0": 1.0}, "student": {"S0": 1.0}}
    (match,) = step.played.matches
    first = match.proposals[0]
    completion = replace(first.proposed.rollout.completion, token_ids=(5,), logprobs=(-4.0,))
    surprising = replace(first.proposed, rollout=replace(first.proposed.rollout, completion=completion))
    proposals = (replace(first, proposed=surprising), *match.proposals[1:])
    changed = replace(step, played=replace(step.played, matches=(replace(match, proposals=proposals),)))
    # Tokens count alike, not texts: (4 + 6 * 1) / 7.
    assert step_metrics(changed)["entropy"] == {"teacher": {"T0": 10 / 7}, "student": {"S0": 1.0}}


def test_work_is_measured_where_students_write_some() -> None:
    whole = full()
    assert not {"work_tokens", "work_rate", "faithful_rate"} & set(step_metrics(whole))
    (match,) = whole.played.matches
    proposal = match.proposals[0]
    works = ("y = 2", "y = 3", "")
    attempts = []
    for attempt, work in zip(proposal.attempts, works, strict=False):
        written = replace(attempt.attempted.rollout.completion, text=f"{work}abcde", token_ids=(5,) * 8)
        rollout = replace(attempt.attempted.rollout, completion=written)
        attempts.append(replace(attempt, attempted=replace(attempt.attempted, rollout=rollout, work=work)))
    attempts += proposal.attempts[len(works) :]
    match = replace(match, proposals=(replace(proposal, attempts=tuple(attempts)), *match.proposals[1:]))
    task = proposal.attempts[0].attempted.task
    played = replace(whole.played, matches=(match,))
    worked = replace(whole, played=played, with_work=True, true_work={task.id: "y = 2"})
    metrics = step_metrics(worked)
    count = len(attempts)
    # Half of a text of eight tokens is work.
    assert metrics["work_tokens"] == pytest.approx(2 * 4 / count)
    assert metrics["work_rate"] == pytest.approx(2 / count)
    assert metrics["faithful_rate"] == 0.5
    # Students that have stopped to work are what one looks for.
    stopped = step_metrics(replace(whole, with_work=True))
    assert (stopped["work_tokens"], stopped["work_rate"]) == (0.0, 0.0)
    unknown = replace(worked, true_work={})
    assert "faithful_rate" not in step_metrics(unknown)
