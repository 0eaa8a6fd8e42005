"""Random streams: the same everywhere for the same parts, unrelated for others."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.base import streams
from redqueen.engine.sampling.tokens import uniforms

Part = st.one_of(
    st.integers(-(10**12), 10**12), st.text(alphabet=st.characters(codec="ascii", categories=("L", "N", "P")))
)
Parts = st.lists(Part, min_size=1, max_size=4).map(tuple)


def test_keys_are_what_they_were_when_the_first_runs_were_recorded() -> None:
    assert streams.key(0, 1, "match") == 0x431D5F69A3E6C280342443CDB4E733DB
    assert streams.python(0, 1, "match").random() == 0.7269251558795136
    assert uniforms(2, 0, 1, "match").tolist() == [0.746906317101163, 0.7955850272893302]


@pytest.mark.integration
def test_a_key_does_not_depend_on_the_process() -> None:
    code = "from redqueen.base import streams; print(streams.key(7, 'propose', 'T1'), streams.python(7, 'x').random())"
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert seen == {f"{streams.key(7, 'propose', 'T1')} {streams.python(7, 'x').random()}\n"}


@given(Parts, Parts)
def test_different_parts_give_different_keys(one: tuple[str | int, ...], other: tuple[str | int, ...]) -> None:
    assert (streams.key(*one) == streams.key(*other)) == (one == other)


def test_a_number_and_its_text_are_different_parts() -> None:
    assert streams.key(1) != streams.key("1")
    assert streams.key("ab", "c") != streams.key("a", "bc")
    assert streams.key("a", "") != streams.key("a")
    assert streams.key(1, 2) != streams.key(2, 1)


# The parts are joined by a separator that may itself be in a part.
def test_a_part_cannot_imitate_the_boundary_between_two() -> None:
    assert streams.key("a", "b") != streams.key("a\x1fstr:b")


@given(Parts)
def test_a_key_has_128_bits(parts: tuple[str | int, ...]) -> None:
    assert 0 <= streams.key(*parts) < 2**128


@given(Parts, st.integers(0, 50), st.integers(0, 50))
def test_more_uniforms_begin_with_the_fewer(parts: tuple[str | int, ...], count: int, more: int) -> None:
    few, many = uniforms(count, *parts), uniforms(count + more, *parts)
    assert few.dtype == np.float64
    assert few.shape == (count,)
    assert np.array_equal(few, many[:count])
    assert ((many >= 0) & (many < 1)).all()


def test_neighbouring_streams_are_unrelated() -> None:
    streams_SN = np.stack([uniforms(2000, 0, step, "attempt") for step in range(8)])
    correlations = np.corrcoef(streams_SN)
    assert abs(correlations[~np.eye(8, dtype=bool)]).max() < 0.1
    assert abs(streams_SN.mean() - 0.5) < 0.01


def test_two_generators_of_one_purpose_draw_the_same_and_share_no_state() -> None:
    one, other = streams.python(3, "references"), streams.python(3, "references")
    first = [one.random() for _ in range(5)]
    assert [other.random() for _ in range(5)] == first
    assert streams.python(4, "references").random() != first[0]
