"""The table: what is kept of each member's games."""

import pytest

from redqueen.league import Table, TrueSkill
from redqueen.league.population import RECENT


def test_the_latest_games_are_kept_and_no_more():
    table = Table()
    table.enrol("student", -1)
    for i in range(RECENT + 3):
        table.note("S0", float(i), i / 100)
    kept = table.members["S0"]
    assert kept.rewards == tuple(float(i) for i in range(3, RECENT + 3))
    assert kept.contested == tuple(i / 100 for i in range(3, RECENT + 3))


def test_a_game_without_a_value_leaves_the_others():
    table = Table()
    table.enrol("student", -1)
    table.note("S0", 0.5, None)
    table.note("S0", None, 0.25)
    assert (table.members["S0"].rewards, table.members["S0"].contested) == ((0.5,), (0.25,))


def test_the_standing_is_the_members_own():
    table = Table()
    table.enrol("teacher", -1)
    table.enrol("student", -1)
    table.record("T0", "S0", "student", TrueSkill())
    table.note("S0", 0.5, 1.0)
    table.probed({"S0": 0.125})
    (standing,) = table.standings("student")
    member = table.members["S0"]
    assert (standing.member, standing.rating, standing.games) == ("S0", member.rating, 1)
    assert (standing.rewards, standing.contested, standing.held_out) == ((0.5,), (1.0,), 0.125)
    assert table.standings("teacher")[0].held_out is None


def test_a_child_inherits_nothing_of_it():
    table = Table()
    table.enrol("student", -1)
    table.note("S0", 0.5, 1.0)
    table.probed({"S0": 0.5})
    child = table.enrol("student", 4, ("S0",), "dare")
    assert (child.games, child.rewards, child.contested, child.held_out) == (0, (), (), None)


def test_a_score_of_nobody_is_an_error():
    with pytest.raises(KeyError):
        Table().probed({"S0": 0.5})
