"""The benchmark of a large league at tiny size: the trainer's own step runs on drawn texts and verdicts."""

from __future__ import annotations

import json

import pytest

from benchmarks.large_league import run_bench_large_league


@pytest.mark.slow
def test_a_step_of_a_large_league_is_timed_by_phase(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_bench_large_league(members=4, proposals=2, steps=2, profile=False, as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    phases = [row["phase"] for row in found["results"]]
    assert phases == ["match", "propose", "solve", "learn", "evolve", "measures", "archive", "metrics", "all"]
    # Four matches of three kinds and two proposals; about four of five are valid, and each is attempted eight times.
    assert 0 < found["settings"]["attempts"] <= 2 * 24 * 8
