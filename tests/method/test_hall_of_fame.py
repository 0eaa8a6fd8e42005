"""The hall of fame: which champions enter and leave, and the matches against them."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from redqueen.evals.held_out import START
from redqueen.method.hall_of_fame import Champion, add, add_champion_matches, champion_of, check_name
from redqueen.method.matchmaking import Match
from redqueen.method.population import Member, Population
from redqueen.method.rating import Rating, TrueSkill
from redqueen.method.seeds import AUTHOR, OWN
from redqueen.store.archive.rows import BANK


def after(step: int, role="student", member="S0") -> Champion:
    return champion_of(member, role, step, Rating(30, 2), 24.0)


def fill(steps, capacity: int) -> list[Champion]:
    hall: list[Champion] = []
    for step in steps:
        hall, _ = add(hall, after(step), capacity)
    return hall


@given(st.integers(1, 12), st.integers(1, 60), st.integers(1, 20))
def test_the_hall_is_bounded_and_keeps_the_newest_and_from_two_places_the_first(capacity, entries, every):
    steps = [every * (i + 1) - 1 for i in range(entries)]
    hall = fill(steps, capacity)
    assert len(hall) == min(capacity, entries)
    assert [c.step for c in hall] == sorted(c.step for c in hall)
    assert hall[-1].step == steps[-1]
    if capacity > 1:
        assert hall[0].step == steps[0]


@given(st.integers(3, 12), st.integers(3, 200))
def test_champions_stay_spread_over_time(capacity, entries):
    hall = fill(range(0, 10 * entries, 10), capacity)
    gaps = [b.step - a.step for a, b in pairwise(hall)]
    # Even gaps need the whole run's length in advance; without it no gap is more than four times the even one.
    assert max(gaps) <= 4 * max(10, (hall[-1].step - hall[0].step) / (capacity - 1))


def test_who_leaves_is_said():
    hall, gone = add(fill([0, 10, 11], 3), after(20), 3)
    assert [c.step for c in hall] == [0, 10, 20]
    assert [c.step for c in gone] == [11]
    assert add([], after(3), 1) == ([after(3)], [])


@pytest.mark.parametrize(
    ("step", "capacity", "message"), [(5, 3, "not younger"), (4, 3, "not younger"), (9, 0, "place")]
)
def test_refusals(step, capacity, message):
    with pytest.raises(ValueError, match=message):
        add([after(5)], after(step), capacity)


def test_names_never_collide_with_members_nor_with_each_other():
    population = Population()
    for step in range(30):
        member = population.add_member("student", step)
        population.add_champion(champion_of(member.name, "student", step, member.rating, 0.0), 50)
        population.add_champion(champion_of(member.name, "teacher", step, member.rating, 0.0), 50) if step % 2 else None
    assert not set(population.hall_of_fame) & {f"S{i}" for i in range(200)}
    assert after(3).name == "S0@3"


def test_each_role_has_its_own_places():
    population = Population()
    for step in range(6):
        population.add_champion(after(step, "student", "S0"), 2)
        population.add_champion(after(step, "teacher", "T0"), 2)
    assert list(population.hall_of_fame) == ["S0@0", "T0@0", "S0@5", "T0@5"]


def matches(n: int) -> list[Match]:
    return [Match(id=f"4.{i}", teacher=f"T{i}", student=f"S{i % 3}") for i in range(n)]


def players(matches: list[Match]) -> list[str]:
    """Both names of every match."""
    return [match.teacher for match in matches] + [match.student for match in matches]


HALL = [after(3, "teacher", "T9"), after(3, "student", "S9"), after(7, "student", "S8")]


@given(st.integers(1, 30), st.floats(0, 1), st.integers(0, 10**6))
def test_the_living_play_as_often_as_they_were_drawn_to(n, fraction, seed):
    invited = add_champion_matches(matches(n), HALL, fraction, 4, random.Random(seed))
    living = Counter(name for name in players(invited) if "@" not in name)
    assert living == Counter(players(matches(n)))
    assert all("@" not in m.teacher or "@" not in m.student for m in invited), "the past does not play itself"
    drawn = [(match.teacher, match.student) for match in matches(n)]
    for m in invited:
        assert "@" in m.teacher + m.student or (m.teacher, m.student) in drawn
        assert m.teacher[0] == "T"
    assert [m.id for m in invited] == [f"4.{i}" for i in range(len(invited))]


def test_the_fraction_of_games_against_the_past():
    rng = random.Random(0)
    games: list[Match] = []
    for _ in range(400):
        games += add_champion_matches(matches(10), HALL, 0.3, 4, rng)
    against = sum("@" in m.student for m in games)
    assert against / 4000 == pytest.approx(0.3, abs=0.03)
    met = Counter(m.student for m in games if "@" in m.student)
    assert met["S9@3"] / against == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(("hall", "fraction"), [((), 1.0), (HALL[:1], 1.0), (HALL[1:], 1.0), (HALL, 0.0)])
def test_without_champions_of_both_roles_or_a_fraction_nothing_changes_and_nothing_is_drawn(hall, fraction):
    rng = random.Random(1)
    before = rng.getstate()
    assert add_champion_matches(matches(5), hall, fraction, 4, rng) == matches(5)
    assert rng.getstate() == before


def test_a_champions_rating_is_frozen_and_the_livings_moves():
    population = Population()
    population.add_member("teacher", 0)
    population.add_member("student", 0)
    population.add_champion(after(3), 2)
    population.rate_game("T0", "S0@3", "student", TrueSkill())
    expected, _ = TrueSkill().rate(Rating(), Rating(30, 2), "student")
    assert population.members["T0"].rating == expected
    assert population.members["T0"].losses == 1
    assert population.hall_of_fame["S0@3"] == after(3)
    assert population.members["S0"].games == 0, "the member itself did not play"
    assert population.ratings() == {"T0": expected, "S0": Rating(), "S0@3": Rating(30, 2)}
    population.record_game("S0@3", 1.0, 1.0)
    assert population.hall_of_fame["S0@3"] == after(3)


# Names of members become folders and words of command lines, so only those that a run gives are read from files.


def test_every_name_that_a_run_gives_is_one() -> None:
    table = Population(born={"teacher": 10**9})
    names = [table.add_member(role, 0).name for role in ("teacher", "student", "both")]
    names += [champion_of(names[0], "teacher", 10**6, Rating(), None).name, START, BANK, AUTHOR, OWN]
    assert [check_name(name) for name in names] == names


@pytest.mark.parametrize(
    "name",
    ["", "../S0", "/S0", "S0/..", "S0\n", "S 0", "0S", "-S0", "S0;rm", "S0`", "S0@", "S0@x", "S0@4@5", "S" * 42, "Sé"],
)
def test_any_other_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(ValueError, match="it names a member") as caught:
        check_name(name)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="it names a member"):
        TypeAdapter(Member).validate_python({"name": name, "role": "student", "born": 0})
