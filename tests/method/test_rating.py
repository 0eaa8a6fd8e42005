"""The closed form against the `trueskill` package, the far tails, and what a child inherits."""

import math
import random
from itertools import pairwise
from statistics import NormalDist
from typing import Any, get_args

import pytest
import trueskill
from hypothesis import given
from hypothesis import strategies as st

from redqueen.method.rating import CHILD_SIGMA, GameResult, Rating, TrueSkill, inherited

OUTCOMES: tuple[GameResult, ...] = get_args(GameResult)


# The package's own normal distribution is an approximation good to 1e-7 only, so it is given an exact one.
EXACT = (
    lambda x, mu=0, sigma=1: 0.5 * math.erfc(-(x - mu) / sigma / math.sqrt(2)),
    NormalDist().pdf,
    NormalDist().inv_cdf,
)


def by_oracle(params: TrueSkill, teacher: Rating, student: Rating, result: GameResult) -> tuple[Any, Any]:
    env = trueskill.TrueSkill(beta=params.beta, tau=params.tau, draw_probability=params.draw_probability, backend=EXACT)
    t, s = env.create_rating(teacher.mu, teacher.sigma), env.create_rating(student.mu, student.sigma)
    if result == "student":
        s, t = trueskill.rate_1vs1(s, t, env=env)
        return t, s
    return trueskill.rate_1vs1(t, s, drawn=result == "draw", env=env)


def test_agrees_with_the_trueskill_package_over_random_games():
    rng = random.Random(0)
    for _ in range(3000):
        params = TrueSkill(draw_probability=rng.choice([0.02, 0.1, 0.5]), tau=rng.choice([0.0, 25 / 300, 1.0]))
        teacher = Rating(rng.uniform(10, 40), rng.uniform(0.5, 9))
        student = Rating(rng.uniform(10, 40), rng.uniform(0.5, 9))
        result = rng.choice(OUTCOMES)
        for ours, theirs in zip(
            params.rate(teacher, student, result), by_oracle(params, teacher, student, result), strict=True
        ):
            assert ours.mu == pytest.approx(theirs.mu, abs=1e-6)
            assert ours.sigma == pytest.approx(theirs.sigma, abs=1e-6)


def test_agrees_over_a_long_series_between_the_same_two():
    rng = random.Random(1)
    ours = theirs = (Rating(), Rating())
    for _ in range(300):
        result = rng.choice(OUTCOMES)
        ours = TrueSkill().rate(*ours, result)
        t, s = by_oracle(TrueSkill(), *theirs, result)
        theirs = (Rating(t.mu, t.sigma), Rating(s.mu, s.sigma))
    for a, b in zip(ours, theirs, strict=True):
        assert (a.mu, a.sigma) == pytest.approx((b.mu, b.sigma), abs=1e-6)


@given(
    gap=st.floats(-1e9, 1e9),
    sigmas=st.tuples(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6)),
    draw_probability=st.floats(0, 0.99),
    result=st.sampled_from(OUTCOMES),
)
def test_any_game_leaves_finite_ratings_and_never_raises_doubt_beyond_the_drift(gap, sigmas, draw_probability, result):
    params = TrueSkill(draw_probability=draw_probability)
    before = Rating(gap, sigmas[0]), Rating(0.0, sigmas[1])
    for old, new in zip(before, params.rate(*before, result), strict=True):
        assert math.isfinite(new.mu)
        assert 0 < new.sigma <= math.hypot(old.sigma, params.tau) * (1 + 1e-12)


@pytest.mark.parametrize("result", OUTCOMES)
@pytest.mark.parametrize("gap_in_sigmas", [-60, 60, 1000])
def test_sixty_sigma_upset_moves_toward_the_result(result, gap_in_sigmas):
    teacher, student = Rating(25 + gap_in_sigmas * 2.0, 2.0), Rating(25, 2.0)
    new_teacher, new_student = TrueSkill().rate(teacher, student, result)
    change = (new_teacher.mu - teacher.mu) - (new_student.mu - student.mu)
    expected = {"teacher": 1, "student": -1, "draw": -math.copysign(1, gap_in_sigmas)}[result]
    assert change * expected >= 0
    assert math.isfinite(change)


def test_the_tail_joins_the_body_without_a_step():
    # The series takes over near a standardised lead of -5; the update must not jump there.
    c = math.sqrt(2 * TrueSkill().beta ** 2 + 2 * (4 + TrueSkill().tau ** 2))
    for result in ("teacher", "draw"):
        moves = [TrueSkill().rate(Rating(25 - c * (x / 1000), 2), Rating(25, 2), result)[0] for x in range(4500, 5500)]
        steps = [b.mu - a.mu for a, b in pairwise(moves)]
        assert max(steps) - min(steps) < 1e-4


@given(st.floats(0, 50), st.floats(0, 50), st.floats(0.1, 10), st.floats(0.1, 10))
def test_roles_are_symmetric_and_probabilities_mirror(mu_a, mu_b, sigma_a, sigma_b):
    a = Rating(mu_a, sigma_a)
    b = Rating(mu_b, sigma_b)
    ts = TrueSkill()
    assert ts.rate(a, b, "teacher") == ts.rate(b, a, "student")[::-1]
    assert sum(next(ts.win_probabilities([(a, b)]))) == pytest.approx(1)


def test_win_probability_is_one_half_between_equals_and_exact_in_the_tail():
    pairs = [(Rating(), Rating()), (Rating(0, 1), Rating(100, 1))]
    (equal, _), (hopeless, _) = TrueSkill().win_probabilities(pairs)
    assert equal == 0.5
    assert 0 < hopeless < 1e-30


def test_a_draw_with_no_draw_margin_pulls_equals_nowhere():
    teacher, student = TrueSkill(draw_probability=0).rate(Rating(30, 3), Rating(30, 3), "draw")
    assert teacher.mu == student.mu == 30
    assert teacher.sigma < 3


@pytest.mark.parametrize("bad", [(math.nan, 1), (1, math.inf), (1, 0), (1, -1)])
def test_a_rating_that_is_no_belief_is_refused(bad):
    with pytest.raises(ValueError, match="finite"):
        Rating(*bad)


@pytest.mark.parametrize("bad", [{"beta": 0}, {"tau": -1}, {"draw_probability": 1}, {"draw_probability": math.nan}])
def test_impossible_parameters_are_refused(bad):
    with pytest.raises(ValueError, match="must be"):
        TrueSkill(**bad)


def test_an_unknown_outcome_is_refused():
    with pytest.raises(ValueError, match="unknown result"):
        TrueSkill().rate(Rating(), Rating(), "pupil")  # type: ignore[arg-type]


def test_a_child_starts_at_its_parents_mean_with_a_wide_sigma():
    child = inherited([Rating(30, 1), Rating(20, 2)])
    assert (child.mu, child.sigma) == (25.0, CHILD_SIGMA)
    assert 1 < CHILD_SIGMA < Rating().sigma
    assert inherited([Rating(31, 1)]).mu == 31.0
    with pytest.raises(ValueError, match="parent"):
        inherited([])
