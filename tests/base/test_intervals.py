"""Student's t against mpmath, and the intervals that are made of it."""

from __future__ import annotations

import math
import random
from statistics import fmean

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.base.intervals import (
    Interval,
    clustered,
    difference,
    interval,
    mean,
    paired,
    share,
    slope,
    t_probability,
    t_quantile,
)

numbers = st.lists(st.floats(-10, 10), min_size=3, max_size=12)
# Equal values have no interval, so these differ by a hundredth at least.
different = st.lists(st.integers(-1000, 1000), min_size=3, max_size=12).filter(lambda all: len(set(all)) > 1)
hundredths = different.map(lambda all: [number / 100 for number in all])


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 10, 29, 30, 101, 1000])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.995])
def test_quantiles_are_those_of_the_incomplete_beta_function(freedom: int, level: float) -> None:
    t = t_quantile(level, freedom)
    outside = mpmath.betainc(freedom / 2, 0.5, 0, freedom / (freedom + t * t), regularized=True)
    assert float(1 - outside) == pytest.approx(level, abs=1e-10)


def test_the_table_that_everybody_knows() -> None:
    known = {1: 12.706, 2: 4.303, 4: 2.776, 9: 2.262, 30: 2.042}
    assert {freedom: round(t_quantile(0.95, freedom), 3) for freedom in known} == known


@given(hundredths)
def test_clusters_of_one_value_are_independent_values(values: list[float]) -> None:
    found, plain = clustered(values, list(map(str, range(len(values))))), interval(values)
    assert found is not None
    assert plain is not None
    assert None not in (plain.low, plain.high)
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high), rel=1e-6, abs=1e-9)


@given(hundredths)
def test_a_value_that_is_there_three_times_tells_no_more_than_once(values: list[float]) -> None:
    names = list(map(str, range(len(values))))
    found, plain = (
        clustered([value for value in values for _ in range(3)], [n for n in names for _ in range(3)]),
        interval(values),
    )
    assert found is not None
    assert plain is not None
    assert None not in (plain.low, plain.high)
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high), rel=1e-6, abs=1e-9)


def test_one_cluster_has_no_interval() -> None:
    assert clustered([], []) is None
    assert clustered([1.0, 2.0], ["a", "a"]) == Interval(1.5, None, None, 2)


@pytest.mark.parametrize(("level", "freedom"), [(0, 3), (1, 3), (0.95, 0)])
def test_no_quantile(level: float, freedom: int) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        t_quantile(level, freedom)


def test_small_samples() -> None:
    assert interval([]) is None
    assert interval([3.0]) == Interval(3.0, None, None, 1)
    assert interval([2.0, 2.0, 2.0]) == Interval(2.0, None, None, 3)
    assert difference([1.0], [1.0, 2.0]) is None
    assert slope([1.0, 2.0], [1.0, 2.0]) is None
    assert slope([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]) is None
    found = interval([1.0, 2.0, 3.0])
    assert found is not None
    assert found.low == pytest.approx(2 - 4.30265 / math.sqrt(3), abs=1e-4)
    assert not found.above
    assert not found.below


@given(numbers, st.floats(-5, 5), st.floats(0.1, 5))
def test_intervals_move_with_the_data(values: list[float], shift: float, factor: float) -> None:
    one, other = interval(values), interval([factor * v + shift for v in values])
    assert one is not None
    assert other is not None
    assert other.mean == pytest.approx(factor * one.mean + shift, abs=1e-9)
    if one.low is not None and other.low is not None and other.high is not None:
        assert other.low == pytest.approx(factor * one.low + shift, abs=1e-6)
        assert other.low <= other.mean <= other.high


def test_they_cover_the_truth_as_often_as_they_say() -> None:
    rng = random.Random(0)
    hits = {"mean": 0, "difference": 0, "slope": 0}
    for _ in range(2000):
        x, y = [rng.gauss(1, 1) for _ in range(4)], [rng.gauss(0, 3) for _ in range(6)]
        line = [2 * i + rng.gauss(0, 1) for i in range(5)]
        for name, truth, found in (
            ("mean", 1, interval(x)),
            ("difference", 1, difference(x, y)),
            ("slope", 2, slope(range(5), line)),
        ):
            assert found is not None
            assert found.low is not None
            assert found.high is not None
            hits[name] += found.low <= truth <= found.high
    # the standard deviation of the share is 0.005
    assert all(share / 2000 == pytest.approx(0.95, abs=0.02) for share in hits.values()), hits


@given(numbers)
def test_a_line_has_its_own_slope(values: list[float]) -> None:
    found = slope(range(len(values)), [3 * i for i in range(len(values))])
    assert found == Interval(pytest.approx(3.0), None, None, len(values))
    noisy = slope(range(len(values)), values)
    assert noisy is not None
    middle = (len(values) - 1) / 2
    square = sum((i - middle) ** 2 for i in range(len(values)))
    assert noisy.mean == pytest.approx(sum((i - middle) * (v - fmean(values)) for i, v in enumerate(values)) / square)


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (1, 10), (5, 10), (10, 10), (37, 210)])
def test_a_share_is_as_likely_at_either_end_of_its_interval(hits: int, n: int) -> None:
    found = share(hits, n)
    assert found is not None
    assert (found.mean, found.n) == (hits / n, n)
    # Wilson's ends are the rates p from which the observed share is 1.96 standard errors away.
    for end in (found.low, found.high):
        assert end is not None
        # An end at 0 or 1 may be off by a rounding, whose square root is not small.
        if 1e-12 < end < 1 - 1e-12:
            assert abs(hits / n - end) == pytest.approx(1.959964 * math.sqrt(end * (1 - end) / n), rel=1e-5)


def test_no_tries_give_no_share() -> None:
    assert share(0, 0) is None


@pytest.mark.parametrize("freedom", [1, 2, 3, 10, 31])
def test_the_probability_undoes_the_quantile(freedom: int) -> None:
    for level in (0.5, 0.9, 0.95, 0.999):
        assert t_probability(t_quantile(level, freedom), freedom) == pytest.approx(level)


def test_a_mean_is_of_what_is_known() -> None:
    assert mean([1.0, None, 2.0]) == 1.5
    assert mean([None]) is None


def test_paired_differences_are_over_the_seeds_that_both_have() -> None:
    assert paired({0: 3.0, 1: 5.0}, {1: 4.0, 2: 9.0}) == Interval(1.0, None, None, 1)
    assert paired({0: 3.0}, {}) is None
