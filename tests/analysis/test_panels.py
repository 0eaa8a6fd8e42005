"""Panels hold the numbers of metrics.jsonl, and a key that a line does not have is a gap."""

from __future__ import annotations

from pathlib import Path

import pytest

from redqueen.run.recording.metrics import Panel, panels, standardised
from redqueen.run.recording.metrics.metric import MOST_MEMBERS
from redqueen.store.directory import RunDirectory
from redqueen.store.metrics import StepMetrics


def by_key(lines: list[StepMetrics]) -> dict[str, Panel]:
    made = panels(lines)
    assert len({panel.key for panel in made}) == len(made)
    return {panel.key: panel for panel in made}


def line(step: int, **values: object) -> StepMetrics:
    return {"step": step, **values}


@pytest.mark.integration
def test_the_panels_of_a_real_run_are_its_metrics(played: Path) -> None:
    lines = RunDirectory(played).metrics()
    found = by_key(lines)
    assert found["solve-rate"].curves["all tasks"] == tuple(line["solve_rate"] for line in lines)
    assert found["valid-rate"].curves["code_o"] == tuple(line["valid_rate_by_kind"]["code_o"] for line in lines)
    assert set(found["ratings-students"].curves) >= {"S0", "S1", "S2"}
    for panel in found.values():
        assert panel.steps == tuple(line["step"] for line in lines)
        assert panel.note.endswith(".")
        for column in panel.curves.values():
            assert len(column) == len(lines)
            assert any(value is not None for value in column)


def test_the_mean_of_kinds_ignores_how_many_tasks_a_kind_has() -> None:
    rates = {"code_o": 0.8, "code_i": 0.2}
    assert standardised(rates, ["code_o", "code_i"]) == pytest.approx(0.5)
    assert standardised({"code_o": 0.8}, ["code_o", "code_i"]) is None
    assert standardised({}, []) is None


def test_keys_that_a_line_lacks_are_gaps() -> None:
    lines = [line(1), line(2, solve_rate=0.5, tasks_by_kind={"code_o": 4}, contested_by_kind={"code_o": 1}), line(3)]
    found = by_key(lines)
    assert found["solve-rate"].curves == {"all tasks": (None, 0.5, None)}
    assert found["contested"].curves == {"all": (None, 0.25, None), "code_o": (None, 0.25, None)}
    assert "rewards" not in found
    assert panels([]) == []


def test_shares_of_statuses_are_over_the_whole_step() -> None:
    counts = {"proposals": {"valid": 6, "error": 2}, "attempts": {}}
    found = by_key([line(1, statuses=counts), line(2, statuses={"proposals": {"malformed": 4}, "attempts": {}})])
    assert found["rejections"].curves == {"error": (0.25, 0.0), "malformed": (0.0, 1.0)}
    assert "verdicts" not in found


def test_members_have_gaps_where_they_do_not_live() -> None:
    old = {"T0": {"role": "teacher", "mu": 25.0, "sigma": 8.0}}
    new = {"T1": {"role": "teacher", "mu": 26.0, "sigma": 7.0}}
    birth = {"victim": "T0", "child": "T1", "parents": ["T0"], "operator": "svd_spectral", "age": 1, "games": 1}
    found = by_key(
        [
            line(1, members=old, grad_norm={"T0": 1.0}, replacements=[]),
            # T0 was trained in this step before it was replaced.
            line(2, members=new, grad_norm={"T0": 3.0}, replacements=[birth]),
            line(3, members=new, grad_norm={"T1": None}, replacements=[]),
        ]
    )
    assert found["ratings-teachers"].curves == {"T0": (25.0, None, None), "T1": (None, 26.0, 26.0)}
    assert found["gradient-norm"].curves == {"teacher": (1.0, 3.0, None)}
    assert found["births"].curves == {"svd_spectral": (0, 1, 1)}


def lives(steps: int, living: int) -> list[StepMetrics]:
    """Lines of a run in which the oldest student is replaced in every step; all are asked held-out problems."""
    lines: list[StepMetrics] = []
    for step in range(1, steps + 1):
        names = [f"S{number}" for number in range(step, step + living)]
        scores = {"start": 0.2, "students": {name: {"rate": 0.5} for name in names}}
        members = {name: {"role": "student", "mu": 25.0, "sigma": 8.0} for name in names}
        lines.append(line(step, members=members, held_out=scores, held_out_own=scores))
    return lines


OF_MEMBERS = ("ratings-students", "sigma-students", "held-out-students", "held-out-own")


@pytest.mark.parametrize(("steps", "living"), [(80, 4), (80, 2 * MOST_MEMBERS)])
def test_of_many_members_the_most_recent_have_a_curve(steps: int, living: int) -> None:
    found = by_key(lives(steps, living))
    last = steps + living - 1
    shown = min(MOST_MEMBERS, steps // 4 + living - 1)
    for key in OF_MEMBERS:
        expected = [f"S{number}" for number in range(last - shown + 1, last + 1)]
        assert [label for label in found[key].curves if label != "the start"] == expected, key
        assert "Not every member is shown" in found[key].note


def test_of_a_few_members_everybody_has_a_curve() -> None:
    found = by_key(lives(MOST_MEMBERS - 1, 2))
    for key in OF_MEMBERS:
        assert len([label for label in found[key].curves if label != "the start"]) == MOST_MEMBERS
        assert "Not every member" not in found[key].note


def test_limits_of_rewards_follow_data_beyond_the_usual() -> None:
    usual = by_key([line(1, teacher_reward=-1.0, student_reward=1.0)])["rewards"]
    assert (usual.low, usual.high) == (-1, 1)
    own = by_key([line(1, teacher_reward=-1.0, student_reward=4.0)])["rewards"]
    assert (own.low, own.high) == (None, None)


def test_complexity_is_the_mean_of_the_kinds_that_teachers_write() -> None:
    def sizes(written: float, reached: float) -> dict[str, dict[str, float]]:
        return {"written": {"nodes": written}, "reached": {"nodes": reached}}

    both = {"code_o": sizes(30, 20), "code_i": sizes(10, 10), "code_f": sizes(99, 99)}
    found = by_key(
        [
            line(1, complexity_by_kind=both),
            line(2, complexity_by_kind={"code_o": sizes(30, 20), "code_i": None, "code_f": None}),
        ]
    )
    assert found["nodes"].curves == {"as written": (20.0, None), "reached": (15.0, None)}
    # Programs with tests have no syntax tree, and say nothing about the others.
    tested = by_key([line(1, complexity_by_kind={"code_o": sizes(30, 20), "code_t": None})])
    assert tested["nodes"].curves == {"as written": (30.0,), "reached": (20.0,)}


def test_coverage_is_shown_as_counted_and_rarefied() -> None:
    counts = {
        "cells": 40,
        "beyond_seeds": 12,
        "rarefied": {"10": 8.5, "100": 30.0},
        "rarefied_by_nodes": {"1000": 20.0},
    }
    early = {"cells": 4, "beyond_seeds": 1, "rarefied": {}, "rarefied_by_nodes": {}}
    found = by_key([line(1, coverage={"programs": early}), line(2, coverage={"programs": counts})])
    assert found["covered-programs"].curves == {"all": (4, 40), "that no seed has": (1, 12)}
    assert found["rarefied-programs"].curves == {
        "in 10 tasks": (None, 8.5),
        "in 100 tasks": (None, 30.0),
        "in 1,000 nodes": (None, 20.0),
    }
    assert "covered-paths" not in found


def test_evaluations_have_steps_of_their_own() -> None:
    lines = [line(1), line(2, evals={"gsm8k": {"S0": 0.5, "S1": 0.0}, "reserved": {"S0": None}}), line(3)]
    panel = by_key(lines)["held-out"]
    assert (panel.steps, dict(panel.curves)) == ((2,), {"gsm8k": (0.25,)})
