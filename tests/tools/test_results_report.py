"""The tables and figures of docs/reports/RESULTS.md: seeds are the units, and runs of one seed are paired."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tools import results_report as report
from tools.experiments import WORK


def cells(rate: float) -> dict[str, Any]:
    sizes = {"reserved": 140, "cruxeval-i": 800, "cruxeval-o": 800}
    names = [*sizes, *(f"{name} drawn" for name in sizes)]
    return {name: {"rate": rate, "problems": sizes[name.removesuffix(" drawn")]} for name in names}


def run(arm: str, seed: int, gain: float, rise: float) -> dict[str, Any]:
    line = {
        **{"valid_rate": 0.5, "novel_rate": None, "solve_rate": 0.3, "entropy": 0.1},
        **{"lines_by_kind": {"code_o": 4.0, "code_i": None}, "solve_rate_by_kind": {}},
    }
    return {
        **{"arm": arm, "seed": seed, "commit": "0123456789abc", "hours": 0.5, "machine": {"processor": "P"}},
        "log_nodes": {} if arm == "R" else {"code_o": {str(step): 3 + rise * step / 100 for step in (1, 2, 3, 4)}},
        "contested_depths": {} if arm == "R" else {"1": 2.0, "4": 3.0},
        "secondary": {"entropy of students": [0.5, 0.1], "guessable tasks": None if arm == "R" else [0.2, 0.3]},
        "breadth": dict.fromkeys(
            ("paths", "programs"), {} if arm == "R" else {"10": 300.0, "20": 250.0, "60": 300 * math.exp(rise)}
        ),
        "steps": [{**line, "step": step, "novel_rate": step / 100} for step in (1, 2, 3, 60)],
        "held_out": [{"step": 4, "students": {"S0": {"gain": gain}, "S1": {"gain": gain}}}],
        "evaluations": {"0": {"S0": cells(0.2)}, "60": {"S0": cells(0.2 + gain), "S1": cells(0.2 + gain)}},
    }


RUNS = {
    "R": {0: run("R", 0, 0.01, 0)},
    "A": {0: run("A", 0, 0.02, -1.0), 1: run("A", 1, 0.04, -2.0), 2: run("A", 2, 0.04, -2.0)},
    "E": {0: run("E", 0, 0.07, 0.5), 1: run("E", 1, 0.08, -0.5)},
}
STRANGERS = {
    0: {
        **{"arm": "T", "seed": 0, "commit": "0123456789abc", "hours": 0.1, "start": {"S0": cells(0.2)}},
        "evaluations": {"seeds": {"S0": cells(0.25)}, "A-0-last": {"S0": cells(0.2)}, "E-0-last": {"S0": cells(0.3)}},
    }
}


def test_gains_are_weighted_by_problems_and_paired_by_seed() -> None:
    uneven = {"S0": {**cells(0.0), "reserved": {"rate": 1.0, "problems": 1600}}}
    assert report.score(uneven, "greedy") == pytest.approx(0.5)
    assert report.score(uneven, "drawn") == 0
    values = report.gains(RUNS, "drawn")
    assert values["E"] == pytest.approx({0: 0.07, 1: 0.08})
    difference = report.compared("gain", values, "E", "A")
    assert difference.differences == pytest.approx([0.05, 0.04]), "seed 2 has no partner"
    assert difference.unpaired is not None
    assert difference.unpaired.mean == pytest.approx(0.045)
    assert difference.unpaired.n == 4
    assert report.slopes(RUNS)["A"] == pytest.approx({0: -1, 1: -2, 2: -2})
    assert "R" not in report.slopes(RUNS)


def test_late_slopes_are_of_the_second_half_and_depths_of_what_members_wrote() -> None:
    def deep(rate: float) -> dict[str, Any]:
        return {"S0": {"deep 4 drawn": {"rate": rate, "problems": 60}, "depth 2 drawn": {"rate": 1, "problems": 60}}}

    scores = {"0": 0.0, "50": 0.5, "100": 0.2, "150": 0.3, "200": 0.4}
    with_teacher = {
        **run("C", 0, 0.1, 0.5),
        "evaluations": {step: deep(rate) for step, rate in scores.items()},
        "contested_depths": {"1": 2.0, "101": 3.0, "201": 4.0},
    }
    alone = {**with_teacher, "log_nodes": {}}
    runs = {"C": {0: with_teacher}, "R": {0: alone}}
    assert report.late_slopes(runs, report.DEEP)["C"] == pytest.approx({0: 0.2})
    assert report.depth_slopes(runs) == {"C": pytest.approx({0: 1.0})}


def test_breadth_is_the_change_of_paths_from_the_first_window_to_the_last() -> None:
    assert report.narrowing(RUNS)["E"] == pytest.approx({0: 0.5, 1: -0.5})
    assert "R" not in report.narrowing(RUNS)
    text = report.tables(RUNS, {})
    assert "| A: one model in both roles | 3 | 300 to 64 | 300 to 64 |" in text
    assert "| E - A | 2 | - | - | +1.50 | - |" in text


@pytest.mark.parametrize("missing", ["10", "60"])
def test_a_run_without_the_first_or_the_last_window_has_no_change_of_breadth(missing: str) -> None:
    whole = RUNS["A"][0]
    points = {step: value for step, value in whole["breadth"]["paths"].items() if step != missing}
    runs = {"A": {0: whole, 1: {**RUNS["A"][1], "breadth": {"paths": points, "programs": points}}}}
    assert report.narrowing(runs) == {"A": pytest.approx({0: -1.0})}
    assert "| A: one model in both roles | 1 | 300 to 110 | 300 to 110 |" in report.tables(runs, {})


def test_a_panel_is_the_first_and_the_last_tasks_for_the_first_and_the_last_students() -> None:
    panel = {"solve_rates": [[0.2, 0.3, 0.4], [0.5, 0.7, 0.8]], "changes": {"teachers": {"mean": -0.1}}}
    harder = {**panel, "changes": {"teachers": {"mean": 0.02}}}
    table = report.tables(RUNS, {}, panels={"A": {0: panel, 1: harder}}).partition("of the last sixth")[2]
    assert "| A: one model in both roles | 2 | 0.20 to 0.40 | 0.50 to 0.80 | -4.0 [" in table


def test_passes_are_the_start_and_the_gain_of_the_runs_that_have_them() -> None:
    assert "pass@k" not in report.tables(RUNS, {})
    passes = {"0": {"1": 0.2, "4": 0.4, "16": 0.6}, "60": {"1": 0.3, "4": 0.45, "16": 0.6}}
    runs = {arm: {seed: {**one, "passes": passes} for seed, one in RUNS[arm].items()} for arm in "RA"}
    table = report.tables({**runs, "E": RUNS["E"]}, {}).partition("pass@k, in %")[2].partition("**Comp")[0]
    assert "| R: fixed tasks | 1 | 20.0 +10.0 | 40.0 +5.0 | 60.0 +0.0 |" in table
    assert "| A: one model in both roles | 3 | 20.0 +10.0 | 40.0" in table
    assert "E: 2T" not in table


def test_strangers_are_named_after_the_arm() -> None:
    values = report.stranger_gains(STRANGERS, "greedy")
    assert {name: by_seed[0] for name, by_seed in values.items()} == pytest.approx(
        {"seeds": 0.05, "A-last": 0.0, "E-last": 0.1}
    )
    table = report.tables(RUNS, STRANGERS).partition("**Strangers")[2].partition("**Comp")[0]
    assert "| E-last less seeds | 1 | +5.0 | +5.0 |" in table
    assert "less A-first" not in table, "there is no such stranger"


def test_p_values_are_those_of_tables() -> None:
    # t = 2 / (1.5811 / sqrt(5)) = 2.828 with 4 degrees of freedom.
    assert report.p_value([0.0, 1.0, 2.0, 3.0, 4.0]) == pytest.approx(0.0474, abs=1e-4)
    assert report.p_value([1.0]) is None
    assert report.p_value([1.0, 1.0]) is None
    # What has no p yet counts as one of those that are corrected for.
    assert report.holm([0.01, None, 0.04, 0.03]) == pytest.approx([0.04, None, 0.09, 0.09])
    assert report.holm([0.6, 0.7]) == [1.0, 1.0]


def test_the_page_has_every_run() -> None:
    text = report.tables(RUNS, STRANGERS)
    for name in ("R-0", "A-0", "A-1", "A-2", "E-0", "E-1", "T-0"):
        assert f"| {name} | 012345678 |" in text
    assert "| gain, drawn: E - A | 2 | +4.5 [-1.9, +10.9] |" in text
    assert "Runs: 7, 3.1 hours" in text
    assert "| R: fixed tasks | 0.50 to 0.10 | - |" in text


def test_no_p_value_is_written_as_zero() -> None:
    single = {seed: run("A", seed, 0.02, -1.0) for seed in range(4)}
    others = {seed: run("C", seed, 0.08 + seed / 1e4, -1.0) for seed in range(4)}
    assert "| gain, drawn: C - A | 4 | +6.0 [+6.0, +6.0] | < 0.001 |" in report.tables({"A": single, "C": others}, {})


def test_figures_are_drawn_of_what_is_there() -> None:
    assert len(report.draw_gains(RUNS).axes) == 3
    assert len(report.draw_courses(RUNS, report.CODE).axes) == 4
    assert report.draw_courses(RUNS, WORK).axes[1].get_title() == "mean depth of contested tasks"
    assert len(report.draw_strangers(STRANGERS).axes) == 2
    # Each operator and control has a panel.
    assert len(report.draw_retention(report.NUMBERS / "retention-E-1.json").axes) == 12


def test_the_table_of_work_weighs_quarters_by_their_tasks_and_has_seeds_as_units() -> None:
    none = {"share": 0.6, "tasks": 0, "right": 0.0}
    quarters = [{"share": 0.2, "tasks": 30, "right": 0.1}, none, none, {"share": 0.6, "tasks": 10, "right": 0.3}]
    twice = [{**quarter, "right": 2 * quarter["right"]} for quarter in quarters]
    kinds = ({"code_o": quarters}, {"code_o": twice}, None)
    runs = {
        "A": {seed: {**run, "pay_of_work": kind} for (seed, run), kind in zip(RUNS["A"].items(), kinds, strict=True)}
    }
    assert "| A: one model in both roles | code_o | 2 | 0.20 to 0.60 | +22.5 [-72.8, +117.8] | 80 |" in report.tables(
        runs, {}
    )
    assert "What work brings" not in report.tables(RUNS, {})
