"""The values that members are ranked by."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.config import LeagueConfig
from redqueen.config.game import FitnessName, TeacherFitness
from redqueen.method.fitness import game_learnability, named_fitness
from redqueen.method.population import Member
from redqueen.method.rating import Rating

FITNESS = get_args(FitnessName)

PLAYED = Member(
    "S0",
    "student",
    -1,
    rating=Rating(30, 2),
    wins=3,
    rewards=(1.0, -0.5, 0.25),
    learnability=(0.0, 1.0),
    held_out=0.75,
)


def test_each_reads_its_own_part_of_the_member():
    assert {name: named_fitness(name)(PLAYED) for name in FITNESS} == {
        "lcb": 30.0,
        "mean_reward": 0.25,
        "learnability": 0.5,
        "held_out": 0.75,
    }


def test_k_is_the_number_of_sigmas_in_the_bound_alone():
    assert named_fitness("lcb", 1.0)(PLAYED) == 28.0
    assert all(named_fitness(name, 1.0)(PLAYED) == named_fitness(name)(PLAYED) for name in FITNESS if name != "lcb")


def test_before_its_first_game_only_the_rating_says_something():
    born = Member("S1", "student", 4)
    assert {name: named_fitness(name)(born) for name in FITNESS} == {
        "lcb": 25.0,
        "mean_reward": None,
        "learnability": None,
        "held_out": None,
    }


def test_the_configuration_knows_every_fitness_and_no_other() -> None:
    assert set(get_args(TeacherFitness)) == set(FITNESS) - {"held_out"}
    for name in FITNESS:
        assert LeagueConfig.model_validate({"student_fitness": name}).student_fitness == name
        assert callable(named_fitness(name))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_learnability_is_a_share_and_blind_to_who_won(rho):
    value = game_learnability(rho)
    assert 0.0 <= value <= 1.0
    assert game_learnability([1.0 - rate for rate in rho]) == pytest.approx(value, abs=1e-12)


def test_learnability_is_highest_at_one_half_and_zero_where_nothing_is_open():
    assert game_learnability([0.5]) == 1.0
    assert game_learnability([0.0, 1.0]) == 0.0
    assert game_learnability([0.25, 0.0]) == 0.375


@pytest.mark.parametrize("bad", [[], [1.5], [0.5, -0.1], [float("nan")]])
def test_what_is_no_game_has_no_learnability(bad):
    with pytest.raises(ValueError, match="solve rates"):
        game_learnability(bad)
