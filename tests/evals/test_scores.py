"""What samples add up to: averages, ranks, and the weakest member against a baseline."""

from __future__ import annotations

import pytest

from redqueen.base.intervals import Interval
from redqueen.evals.scores import Results
from tests.evals.made_up import ENTRIES, loaded, results, rows


def test_averages_are_over_the_benchmarks_of_the_paper() -> None:
    found = results({"humaneval+": (4, 8, 12), "mbpp+": (8, 8, 8), "gsm8k": (0, 20, 40), "cruxeval-o": (40, 40, 40)})
    assert found.columns() == ["humaneval+", "mbpp+", "gsm8k", "cruxeval-o", "code", "all"]
    assert found.mean("code", 0) == pytest.approx((0.1 + 0.2) / 2)
    assert found.mean("all", 1) == pytest.approx((0.2 + 0.2 + 0.5) / 3)
    assert found.overall() == "all"
    assert found.ranked([1, 2]) == [2, 1]
    mean = found.population("gsm8k", [1, 2])
    assert mean is not None
    assert (mean.mean, mean.low, mean.high, mean.n) == (0.75, 0.5, 1.0, 2)


@pytest.mark.parametrize(
    ("right", "above", "below"), [((4, 30, 32), True, False), ((4, 6, 32), False, False), ((30, 4, 32), False, True)]
)
def test_the_weakest_member_is_compared_with_its_interval(
    right: tuple[int, int, int], above: bool, below: bool
) -> None:
    found = results({"gsm8k": right}).weakest_against([1, 2], 0)
    assert found is not None
    assert found.mean == pytest.approx((min(right[1:]) - right[0]) / 40)
    assert (found.above, found.below) == (above, below)


def test_what_the_machine_lost_counts_nowhere() -> None:
    one = loaded("gsm8k", 3)
    found = Results(ENTRIES[:1], [one])
    found.add(one, [rows("gsm8k", ["correct", "infra_error", "wrong"])])
    cell = found.cells["gsm8k"][0]
    assert cell.rate is not None
    assert (cell.rate.mean, cell.problems, cell.samples, cell.cut_off) == (0.5, 2, 2, 0.0)
    assert cell.statuses == {"correct": 1, "infra_error": 1, "wrong": 1}
    assert cell.parts == {"a": (1, 2)}


def test_what_the_machine_lost_for_one_entry_is_compared_for_none() -> None:
    # Both give the same answers, and the machine lost four right ones of the first.
    one = loaded("gsm8k", 40)
    found = Results(ENTRIES[:2], [one])
    rest = ["correct"] * 6 + ["wrong"] * 30
    found.add(one, [rows("gsm8k", ["infra_error"] * 4 + rest), rows("gsm8k", ["correct"] * 4 + rest)])
    for difference in (found.mean_over("gsm8k", [1], [0]), found.weakest_against([1], 0)):
        assert difference == Interval(0.0, None, None, 36)
    mean = found.mean_of("gsm8k", [0, 1])
    assert mean is not None
    assert (mean.mean, mean.n) == (pytest.approx(6 / 36), 36)
    # In its own row an entry has all that it answered.
    assert found.mean("gsm8k", 1) == 0.25
    nothing = Results(ENTRIES[:2], [one])
    nothing.add(one, [rows("gsm8k", ["infra_error"] * 40), rows("gsm8k", ["correct"] * 40)])
    assert (
        nothing.mean_over("gsm8k", [1], [0]) is nothing.weakest_against([1], 0) is nothing.mean_of("gsm8k", [0]) is None
    )


def test_several_samples_give_their_mean_and_pass_at_k() -> None:
    one = loaded("gsm8k", 2)
    found = Results(ENTRIES[:1], [one])
    found.add(one, [rows("gsm8k", ["correct", "wrong", "wrong", "wrong", *["wrong"] * 4], samples=4)])
    cell = found.cells["gsm8k"][0]
    assert cell.rate is not None
    assert cell.rate.mean == pytest.approx(0.125)
    assert cell.pass_at == pytest.approx({1: 0.125, 2: 0.25, 4: 0.5})


def test_all_or_nothing_has_wilsons_interval() -> None:
    rate = results({"gsm8k": (0, 40, 3)}).cells["gsm8k"][0].rate
    assert rate is not None
    assert (rate.mean, rate.low) == (0.0, pytest.approx(0.0, abs=1e-12))
    assert rate.high == pytest.approx(0.0876, abs=1e-3)
