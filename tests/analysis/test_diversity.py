"""The Vendi score and rarefied curves against cases whose answer is known, and against counting by hand."""

from __future__ import annotations

import itertools
import math
from statistics import fmean

import numpy as np
import pytest

from redqueen.analysis.compare import levels, rarefaction, rarefied_vendi_score, vendi_score
from redqueen.store.archive.rows import MeasureRow


def row(shape: str, paths: str) -> MeasureRow:
    sizes = dict.fromkeys([name for name in MeasureRow.__slots__ if name.startswith(("written_", "reached_"))], 1)
    return MeasureRow(
        task=shape,
        step=1,
        **sizes,
        input_size=1.0,
        output_size=1.0,
        signature="int -> int",
        shape=shape,
        paths=paths,
        functions="",
        identity=shape,
        repeated=False,
        new_shape=True,
        new_paths=0,
        typed_inputs=None,
        behaviour=None,
        distinct_outputs=None,
        same_output_rate=None,
        echo=None,
    )


def test_the_score_is_the_effective_number_of_tasks() -> None:
    assert vendi_score([{"a"}] * 5) == pytest.approx(1)
    assert vendi_score([{"a"}, {"b"}, {"c"}]) == pytest.approx(3)
    assert vendi_score([{"a"}, {"a"}, {"b"}, {"b"}]) == pytest.approx(2)
    assert vendi_score([set(), set(), {"a"}, {"a"}]) == pytest.approx(2)
    assert vendi_score([]) is None


def test_the_score_is_the_entropy_of_the_kernel() -> None:
    tasks = [{"a", "b"}, {"b", "c"}, {"a", "b", "c"}]
    kernel = [[len(x & y) / math.sqrt(len(x) * len(y)) for y in tasks] for x in tasks]
    weights = np.linalg.eigvalsh(np.array(kernel) / len(tasks))
    expected = math.exp(-sum(w * math.log(w) for w in weights if w > 0))
    assert vendi_score(tasks) == pytest.approx(expected)


def test_sets_are_compared_at_the_same_size() -> None:
    tasks = [{"a"}, {"b"}] * 50
    assert rarefied_vendi_score(tasks, 101) is None
    few = rarefied_vendi_score(tasks, 4)
    assert few is not None
    assert 1 < few < 2
    assert few == rarefied_vendi_score(tasks, 4)


def test_a_rarefied_curve_is_the_mean_over_all_draws() -> None:
    rows = [row("x", "a b"), row("x", "a"), row("y", "c"), row("z", "c d")]
    cells = {"programs": [{"x"}, {"x"}, {"y"}, {"z"}], "paths": [{"a", "b"}, {"a"}, {"c"}, {"c", "d"}]}
    for what, of_task in cells.items():
        for size in (1, 2, 3, 4):
            numbers = [len(set[str]().union(*draw)) for draw in itertools.combinations(of_task, size)]
            assert rarefaction(rows, what, (size,)) == [pytest.approx(fmean(numbers))]


def test_levels_end_at_all_tasks() -> None:
    assert levels(0) == ()
    assert levels(3) == (1, 2, 3)
    assert levels(1000)[0] < 5
    assert levels(1000)[-1] == 1000
