"""Bootstrap intervals and pass@k, against enumeration."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from redqueen.evals.scores import over_members, pass_at_k, percentiles, resampled_means


@pytest.mark.parametrize(("samples", "correct"), [(5, 0), (5, 1), (5, 3), (5, 5), (1, 1)])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_sample(samples: int, correct: int) -> None:
    right = [number < correct for number in range(samples)]
    for k in range(1, samples + 1):
        drawn = [any(subset) for subset in combinations(right, k)]
        assert pass_at_k(samples, correct, k) == pytest.approx(sum(drawn) / len(drawn))


def test_more_samples_than_there_are_have_no_pass_at_k() -> None:
    with pytest.raises(ValueError, match="pass@3 needs at least 3 samples, not 2"):
        pass_at_k(2, 1, 3)


def test_the_bootstrap_of_a_share_has_the_binomial_spread() -> None:
    rates = np.array([[1.0] * 30 + [0.0] * 70])
    drawn = resampled_means(rates, list(map(str, range(100))), "x")[:, 0]
    assert drawn.mean() == pytest.approx(0.3, abs=0.01)
    assert drawn.std() == pytest.approx((0.3 * 0.7 / 100) ** 0.5, rel=0.1)
    found = percentiles(0.3, drawn, 100)
    assert found.low == pytest.approx(0.21, abs=0.02)
    assert found.high == pytest.approx(0.39, abs=0.02)


def test_problems_of_one_program_are_drawn_together() -> None:
    programs = [str(number // 3) for number in range(90)]
    alike = np.array([[float(number // 3 < 9) for number in range(90)]])
    drawn = resampled_means(alike, programs, "x")[:, 0]
    assert np.array_equal(drawn, resampled_means(alike[:, ::3], programs[::3], "x")[:, 0])
    assert drawn.std() == pytest.approx((0.3 * 0.7 / 30) ** 0.5, rel=0.1)


def test_entrants_are_paired_and_lost_problems_are_left_out() -> None:
    rates = np.array([[1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0], [1.0, 0.0, np.nan, np.nan]])
    drawn = resampled_means(rates, ["a", "b", "c", "d"], "x")
    assert np.array_equal(drawn[:, 0], drawn[:, 1])
    assert np.nanmean(drawn[:, 2]) == pytest.approx(0.5, abs=0.05)
    # A draw of the lost problems alone has no mean.
    assert np.isnan(drawn[:, 2]).any()


def test_values_without_spread_have_no_interval() -> None:
    assert over_members([0.5], "x").low is None
    assert over_members([0.5, 0.5], "x").low is None
    spread = over_members([0.2, 0.4, 0.6], "x")
    assert spread.mean == pytest.approx(0.4)
    assert spread.low is not None
    assert spread.low < 0.4
