"""Coverage: what is counted, and that a rarefied count is the expectation that it says it is."""

from __future__ import annotations

from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.tasks.programs.coverage import Coverage, rarefied

TASKS = st.lists(st.sets(st.sampled_from("abcdef"), max_size=4), min_size=1, max_size=7)


@given(TASKS)
def test_a_rarefied_count_is_the_mean_over_all_draws(tasks: list[set[str]]) -> None:
    counts = [sum(cell in task for task in tasks) for cell in set().union(*tasks)]
    for level in range(1, len(tasks) + 1):
        drawn = [len(set().union(*some)) for some in combinations(tasks, level)]
        assert rarefied(counts, len(tasks), level) == pytest.approx(fmean(drawn), abs=1e-6)


def test_seeds_are_counted_apart() -> None:
    coverage = Coverage({"a"})
    assert coverage.unseen("ab") == {"b"}
    for _ in range(10):
        coverage.add(["a", "b", "b"], nodes=50)
    assert coverage.unseen("abc") == {"c"}
    covered = coverage.covered()
    assert (covered.tasks, covered.cells, covered.beyond_seeds) == (10, 2, 1)
    assert covered.rarefied == {"10": 2.0}
    assert covered.rarefied_beyond_seeds == {"10": 1.0}


def test_longer_programs_get_fewer_tasks_for_as_many_nodes() -> None:
    # Each program of the talkative run has twice the cells and twice the nodes: for as many nodes it covers as much.
    short = Coverage(())
    long = Coverage(())
    for number in range(200):
        short.add([f"{number}"], nodes=10)
        long.add([f"{number}a", f"{number}b"], nodes=20)
    assert long.covered().rarefied["100"] == 2 * short.covered().rarefied["100"]
    assert long.covered().rarefied_by_nodes["1000"] == short.covered().rarefied_by_nodes["1000"]


def test_nothing_is_covered_by_nothing() -> None:
    covered = Coverage({"a"}).covered()
    assert (covered.tasks, covered.cells, covered.rarefied, covered.rarefied_by_nodes) == (0, 0, {}, {})


def test_a_long_run_costs_no_more_digits_than_it_has() -> None:
    counts = [1] * 1000 + [100_000] * 3
    assert rarefied(counts, 150_000, 150_000) == 1003
    assert 3 < rarefied(counts, 150_000, 1000) < 3 + 1000 * 1000 / 150_000 + 1e-6
