"""The rule of a game: par, a match's score against it, and the draw band."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen import plugins
from redqueen.method.games import SolveRates, match_score, outcome, par_by, par_of
from redqueen.plugins import PluginError
from redqueen.tasks.python import NAMES

rates = st.lists(st.sampled_from([i / 6 for i in range(7)]), max_size=5)
matches = st.lists(st.dictionaries(st.sampled_from(NAMES), rates), min_size=1, max_size=8)


def has_tasks(match: SolveRates) -> bool:
    return any(match.values())


def test_par_is_the_mean_solve_rate_of_the_solved_tasks_of_each_kind() -> None:
    par = par_of([{"code_o": [0.5, 0.0], "code_f": [0.25]}, {"code_o": [1.0], "code_i": [0.0]}])
    assert par == {"code_o": 0.75, "code_f": 0.25}


def test_a_score_is_the_mean_distance_from_par() -> None:
    par = {"code_o": 0.75, "code_f": 0.25}
    assert match_score({"code_o": [0.25, 1.0], "code_f": [0.5]}, par) == pytest.approx((-0.5 + 0.25 + 0.25) / 3)


def test_an_unsolved_task_decides_nothing_and_weakens_what_the_others_decide() -> None:
    par = {"code_o": 0.5}
    assert match_score({"code_o": [0.0, 0.0]}, par) == 0.0
    assert match_score({"code_i": [0.0]}, par) == 0.0, "its kind may never have been solved"
    assert match_score({"code_o": [0.25, 0.0]}, par) == match_score({"code_o": [0.25]}, par) / 2


@given(matches)
def test_the_matches_that_make_par_are_at_par_on_average(history: list[SolveRates]) -> None:
    par = par_of(history)
    played = [match for match in history if has_tasks(match)]
    tasks = [sum(map(len, match.values())) for match in played]
    total = math.fsum(match_score(match, par) * count for match, count in zip(played, tasks, strict=True))
    assert total == pytest.approx(0.0, abs=1e-12)
    assert par_of(random.Random(0).sample(history, len(history))) == par


@given(matches)
def test_a_single_match_is_a_draw_with_itself(history: list[SolveRates]) -> None:
    for match in filter(has_tasks, history):
        assert outcome(match_score(match, par_of([match])), 0.0) == "draw"


@pytest.mark.parametrize(
    ("score", "expected"),
    [(0.04, "student"), (0.03, "draw"), (0.0, "draw"), (-0.03, "draw"), (-0.04, "teacher"), (1.0, "student")],
)
def test_the_edges_of_the_band_belong_to_the_draw(score, expected) -> None:
    assert outcome(score, 0.03) == expected


def test_a_score_at_the_edge_is_not_rounded_over_it() -> None:
    for n in range(1, 60):
        assert outcome(match_score({"code_o": [0.55] * n}, {"code_o": 0.5}), 0.05) == "draw"
        assert outcome(match_score({"code_o": [0.45] * n}, {"code_o": 0.5}), 0.05) == "draw"


def test_what_cannot_be_scored_is_refused() -> None:
    with pytest.raises(ValueError, match="without a valid task"):
        match_score({"code_o": []}, {})
    with pytest.raises(ValueError, match="solve rates"):
        match_score({"code_o": [1.5]}, {"code_o": 0.5})
    with pytest.raises(ValueError, match="score"):
        outcome(math.nan, 0.03)


def test_a_rule_of_a_plugin_needs_a_level_for_every_kind_that_was_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_parts", {})
    plugins.game_rule(lambda recent: {"code_o": 0.25})
    assert par_by("<lambda>", [{"code_o": [1.0], "code_i": [0.0]}]) == {"code_o": 0.25}
    with pytest.raises(PluginError, match=r"the game rule '<lambda>' gave .* it needs a number in \[0, 1\] for code_i"):
        par_by("<lambda>", [{"code_i": [0.5]}])
