"""Everyone plays, weights are honoured, the draw is reproducible."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.league import Match, Rating, TrueSkill, matchmake

WEIGHTINGS = ("balanced", "hard", "uniform")


def role(prefix: str, size: int, seed: int = 0) -> dict[str, Rating]:
    rng = random.Random(f"{prefix}{seed}")
    return {f"{prefix}{i}": Rating(rng.uniform(0, 50), rng.uniform(0.5, 9)) for i in range(size)}


def play(teachers, students, seed=0, weighting="balanced", matches=None):
    return matchmake(
        teachers,
        students,
        weighting=weighting,
        trueskill=TrueSkill(),
        rng=random.Random(seed),
        matches=matches,
    )


@given(
    t=st.integers(1, 9),
    s=st.integers(1, 9),
    seed=st.integers(0, 10**6),
    weighting=st.sampled_from(WEIGHTINGS),
)
def test_everyone_plays_in_max_t_s_matches(t, s, seed, weighting):
    teachers, students = role("t", t, seed), role("s", s, seed)
    matches = play(teachers, students, seed, weighting)
    assert len(matches) == max(t, s)
    by_teacher, by_student = Counter(m.teacher for m in matches), Counter(m.student for m in matches)
    assert set(by_teacher) == set(teachers)
    assert set(by_student) == set(students)
    longer = by_teacher if t >= s else by_student
    assert set(longer.values()) == {1}
    if t == s:
        assert set(by_student.values()) == {1}


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_same_generator_same_matches(weighting):
    teachers, students = role("t", 4), role("s", 8)
    assert play(teachers, students, 7, weighting) == play(teachers, students, 7, weighting)
    assert len({tuple(play(teachers, students, seed, weighting)) for seed in range(20)}) > 1


def free_draws(weighting: str, draws: int = 6000) -> dict[str, float]:
    """How often the third student, whose draw is unconstrained, meets each of two teachers."""
    teachers = {"even": Rating(25, 1), "strong": Rating(33, 1)}
    students = {f"s{i}": Rating(25, 1) for i in range(3)}
    met = Counter(play(teachers, students, seed, weighting)[2].teacher for seed in range(draws))
    return {name: met[name] / draws for name in teachers}


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_free_draws_follow_the_weights(weighting):
    p = {name: TrueSkill().win_probability(Rating(25, 1), Rating(mu, 1)) for name, mu in (("even", 25), ("strong", 33))}
    weigh = {"balanced": lambda p: p * (1 - p), "hard": lambda p: 1 - p, "uniform": lambda p: 1.0}[weighting]
    total = sum(weigh(x) for x in p.values())
    for name, share in free_draws(weighting).items():
        assert share == pytest.approx(weigh(p[name]) / total, abs=0.025)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_hopeless_pairs_still_play(weighting):
    teachers = {f"t{i}": Rating(1e6, 1e-3) for i in range(3)}
    students = {f"s{i}": Rating(-1e6, 1e-3) for i in range(3)}
    assert len(play(teachers, students, 0, weighting)) == 3
    assert len(play(students, teachers, 0, weighting)) == 3


def test_further_rounds_are_permutations_too():
    teachers, students = role("t", 4), role("s", 4)
    matches = play(teachers, students, matches=10)
    assert len(matches) == 10
    for start in (0, 4):
        assert len({m.student for m in matches[start : start + 4]}) == 4
        assert len({m.teacher for m in matches[start : start + 4]}) == 4


def test_the_single_agent_baseline_repeats_its_pair():
    solo = {"m0": Rating()}
    assert play(solo, solo) == [Match("m0", "m0")]
    assert play(solo, solo, matches=4) == [Match("m0", "m0")] * 4


@pytest.mark.parametrize(
    ("t", "s", "matches", "weighting", "message"),
    [
        (0, 1, None, "balanced", "each role"),
        (1, 0, None, "balanced", "each role"),
        (4, 4, 3, "balanced", "without a game"),
        (1, 1, 0, "balanced", "without a game"),
        (2, 2, None, "easy", "weighting"),
    ],
)
def test_refusals(t, s, matches, weighting, message):
    with pytest.raises(ValueError, match=message):
        play(role("t", t), role("s", s), 0, weighting, matches)


def test_ratings_are_not_touched():
    teachers, students = role("t", 3), role("s", 5)
    before = dict(teachers), dict(students)
    play(teachers, students)
    assert (teachers, students) == before
    assert list(teachers) == list(before[0])
