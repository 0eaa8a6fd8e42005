"""The simulation of games and selection: it runs, repeats, and says what it should where the answer is known."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.league import Rule, measure, run_bench_league, simulate
from redqueen.config import EvolutionConfig, LeagueConfig

SMALL = Rule(name="small", size=3, evolution=EvolutionConfig(every=3, gamma=0.34, burn_in=3), steps=30)


def test_a_run_repeats_and_depends_on_its_seed() -> None:
    assert simulate(SMALL, 0.0, 1) == simulate(SMALL, 0.0, 1)
    assert simulate(SMALL, 0.0, 1) != simulate(SMALL, 0.0, 2)


def test_equal_members_stay_equal_and_every_match_is_a_game() -> None:
    run = simulate(replace(SMALL, spread=0.0), 0.0, 1, noise=0.0)
    assert run.quality == 0.0
    assert run.contested == run.uniform > 0.5
    assert run.outcomes.total() == 3 * 30
    assert 0 < run.culled < run.tried < len(run.ages)
    assert min(run.ages) >= 3


def test_balanced_matches_are_contested_more_often_where_members_differ() -> None:
    different = replace(SMALL, size=4, spread=2.0, evolution=EvolutionConfig(enabled=False), steps=100)
    run = simulate(different, 0.0, 1)
    assert run.contested > run.uniform + 0.01
    assert run.ages == ()


def test_a_fixed_level_is_won_by_one_side_where_par_is_won_by_both() -> None:
    par = simulate(SMALL, 3.0, 1).outcomes
    half = simulate(
        Rule(name="half", size=3, evolution=SMALL.evolution, steps=30, league=LeagueConfig(game="half")), 3.0, 1
    )
    assert min(par["student"], par["teacher"]) >= 0.2 * par.total()
    assert half.outcomes["student"] >= 0.8 * half.outcomes.total()


def test_the_report_has_a_row_for_each_rule_and_offset_and_a_bar_for_each_figure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = measure([SMALL], 2)
    assert [row["offset"] for row in report.results] == ["+0.0", "-1.5", "+1.5"]
    assert len(report.ratios) == 3
    assert run_bench_league(1, 6, as_json=True) == 0
    rows = json.loads(capsys.readouterr().out)["results"]
    assert {row["size"] for row in rows} == {2, 4}
