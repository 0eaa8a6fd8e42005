"""The population: the records of each member's games."""

import pytest

from redqueen.method.population import RECENT, Population
from redqueen.method.rating import Rating, TrueSkill


def test_the_latest_games_are_kept_and_no_more():
    population = Population()
    population.add_member("student", 0)
    for i in range(RECENT + 3):
        population.record_game("S0", float(i), i / 100)
    kept = population.members["S0"]
    assert kept.rewards == tuple(float(i) for i in range(3, RECENT + 3))
    assert kept.learnability == tuple(i / 100 for i in range(3, RECENT + 3))


def test_a_game_without_a_value_leaves_the_others():
    population = Population()
    population.add_member("student", 0)
    population.record_game("S0", 0.5, None)
    population.record_game("S0", None, 0.25)
    assert (population.members["S0"].rewards, population.members["S0"].learnability) == ((0.5,), (0.25,))


def test_members_of_a_role_are_those_ranked_together() -> None:
    population = Population()
    population.add_member("teacher", 0)
    population.add_member("student", 0)
    population.add_member("both", 0)
    assert [m.name for m in population.members_of("student")] == ["S0"]
    assert list(population.players("student")) == ["S0", "A0"]


def test_what_is_recorded_is_the_members_own() -> None:
    population = Population()
    population.add_member("teacher", 0)
    population.add_member("student", 0)
    population.rate_game("T0", "S0", "student", TrueSkill())
    population.record_game("S0", 0.5, 1.0)
    population.set_held_out({"S0": 0.125})
    (student,) = population.members_of("student")
    assert (student.name, student.games) == ("S0", 1)
    assert (student.rewards, student.learnability, student.held_out) == ((0.5,), (1.0,), 0.125)
    assert population.members_of("teacher")[0].held_out is None


def test_a_child_inherits_nothing_of_it():
    population = Population()
    population.add_member("student", 0)
    population.record_game("S0", 0.5, 1.0)
    population.set_held_out({"S0": 0.5})
    child = population.add_member("student", 4, ("S0",), "dare")
    assert (child.games, child.rewards, child.learnability, child.held_out) == (0, (), (), None)
    assert child.rating == Rating()


def test_a_child_starts_with_the_rating_that_it_is_given():
    child = Population().add_member("student", 4, ("S0",), "dare", Rating(31, 4))
    assert child.rating == Rating(31, 4)


def test_a_score_of_nobody_is_an_error():
    with pytest.raises(KeyError):
        Population().set_held_out({"S0": 0.5})
