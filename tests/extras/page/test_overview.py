"""The overview's charts: the first four, the others by question, and the kinds of task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from redqueen.extras.page.headline import trained
from redqueen.extras.page.live_run import LiveRun
from redqueen.extras.page.overview import (
    FEW_TASKS,
    MANY,
    QUESTIONS,
    by_kind,
    first_charts,
    overview,
    panel_json,
    question_of,
    with_bands,
)
from redqueen.run.recording.metrics import panels
from tests.extras.page import drawn_run
from tests.extras.page.drawn_run import EVERY


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> LiveRun:
    return LiveRun(drawn_run.write(tmp_path_factory.mktemp("drawn") / "run", 30))


def drawn_panels(run: LiveRun) -> list[dict[str, Any]]:
    found = overview(run)["panels"]
    assert isinstance(found, list)
    return found


def test_the_first_charts_are_four_and_the_gain_begins_at_the_start(run: LiveRun) -> None:
    charts = first_charts(run.lines())
    assert [chart["key"] for chart in charts] == ["first-gain", "first-health", "first-winners", "first-solved"]
    gain = charts[0]
    assert gain["steps"] == [0, 10, 20, 30]
    curves = {curve["label"]: curve for curve in gain["curves"]}
    assert curves["S0"]["values"][0] == 0
    measured = run.lines()[9]["held_out"]["students"]["S0"]
    assert (curves["S0"]["values"][1], curves["S0"]["low"][1]) == (100 * measured["gain"], 100 * measured["low"])


def test_of_many_students_the_living_are_shown_beside_the_mean_of_all(tmp_path: Path) -> None:
    lines = LiveRun(drawn_run.write(tmp_path / "run", 60)).lines()
    ever = {name for line in lines for name in line.get("held_out", {}).get("students", {})}
    assert len(ever) > MANY
    labels = [curve["label"] for curve in first_charts(lines)[0]["curves"]]
    assert labels[0] == "mean of the students"
    # One that was born in the last step has learned nothing yet.
    last, newborn = trained(lines[-1])
    assert newborn
    assert set(labels[1:]) == set(last)


def test_a_run_without_held_out_scores_has_no_chart_of_them(run: LiveRun) -> None:
    lines = [{key: value for key, value in line.items() if key != "held_out"} for line in run.lines()]
    assert next(chart["key"] for chart in first_charts(lines)) == "first-health"
    assert first_charts([]) == []


def test_every_chart_is_under_a_question_of_its_own(run: LiveRun) -> None:
    found = overview(run)["panels"]
    assert isinstance(found, list)
    assert {panel["question"] for panel in found} == set(QUESTIONS[:-1])
    assert question_of("new-chart", "training") == "How does the training go?"
    assert question_of("new-chart", "new-section") == QUESTIONS[-1]
    assert question_of("valid-rate", "dynamics") == "Are the tasks valid, and worth solving?"
    assert question_of("held-out-by-kind", "dynamics") == "Do students learn?"


def test_a_rating_is_a_band(run: LiveRun) -> None:
    before = [panel_json(panel) for panel in panels(run.lines())]
    after = {panel["key"]: panel for panel in with_bands(before)}
    assert not [key for key in after if key.startswith("sigma-")]
    (curve,) = [curve for curve in after["ratings-teachers"]["curves"] if curve["label"] == "T0"]
    member = run.lines()[0]["members"]["T0"]
    assert (curve["low"][0], curve["values"][0], curve["high"][0]) == (
        member["mu"] - member["sigma"],
        member["mu"],
        member["mu"] + member["sigma"],
    )


def test_held_out_scores_are_never_smoothed(run: LiveRun) -> None:
    plain = {panel["key"] for panel in drawn_panels(run) if panel["plain"]}
    assert plain == {"held-out-students", "held-out"}


def test_kinds_are_compared_over_the_last_quarter(run: LiveRun) -> None:
    lines = run.lines()
    found = by_kind(lines)
    assert (found["first"], found["last"]) == (24, 30)
    rows = found["rows"]
    assert isinstance(rows, list)
    (row,) = [row for row in rows if row["kind"] == "code_i"]
    quarter = lines[-7:]
    tasks = sum(line["tasks_by_kind"]["code_i"] for line in quarter)
    assert row["tasks"] == tasks
    assert row["contested"] == sum(line["contested_by_kind"]["code_i"] for line in quarter) / tasks
    assert by_kind([])["rows"] == []


def kinds(tasks: int) -> list[dict[str, Any]]:
    one = {
        "tasks_by_kind": {"code_o": tasks, "code_i": tasks},
        "contested_by_kind": {"code_o": 1, "code_i": tasks // 2},
    }
    rates = {"code_o": 0.5, "code_i": 0.5}
    return [{"step": 1, "valid_rate_by_kind": rates, "solve_rate_by_kind": rates, **one}]


def test_no_kind_is_the_best_of_a_few_tasks() -> None:
    assert by_kind(kinds(5))["best"] is None
    assert by_kind(kinds(FEW_TASKS))["best"] == "code_i"


def test_a_gain_that_never_moves_is_no_chart() -> None:
    score = {"rate": 0.3, "gain": 0.0, "low": 0.0, "high": 0.0}
    flat: dict[str, Any] = {"problems": 9, "start": 0.3, "students": {"S0": score}}
    members = {"S0": {"born": 0}}
    assert first_charts([{"step": 6, "held_out": flat, "members": members}]) == []
    moved = {**flat, "students": {"S0": {**score, "low": -0.1, "high": 0.1}}}
    (chart,) = first_charts([{"step": 6, "held_out": moved, "members": members}])
    assert chart["steps"] == [0, 6]


def test_the_start_is_drawn_at_the_start(run: LiveRun) -> None:
    (panel,) = [panel for panel in drawn_panels(run) if panel["key"] == "held-out-students"]
    assert panel["steps"][:2] == [0, EVERY]
    curves = {curve["label"]: curve["values"] for curve in panel["curves"]}
    assert curves["the start"][0] == curves["S0"][0] == 0.24


def test_the_limits_of_health_are_in_its_chart(run: LiveRun) -> None:
    (chart,) = [chart for chart in first_charts(run.lines()) if chart["key"] == "first-health"]
    assert chart["limits"] == [0.5, 0.1]
    assert "from 50% valid proposals and 10% contested tasks on" in chart["note"]
    alone = [{**line, "valid_rate": None} for line in run.lines()]
    (chart,) = [chart for chart in first_charts(alone) if chart["key"] == "first-health"]
    assert chart["limits"] == [0.1]
