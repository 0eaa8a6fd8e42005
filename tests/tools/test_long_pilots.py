"""Gains and slopes of pilots: held-out questions are the units."""

from __future__ import annotations

import json

import pytest

from tools import long_pilots


def test_a_gain_is_the_mean_over_questions_of_the_later_answer_less_the_first() -> None:
    (found,) = long_pilots.gains(["0011", "0111"])
    assert found is not None
    assert found.mean == 0.25


def test_the_slope_of_the_second_half_does_not_see_the_first() -> None:
    answers = ["1111", "0000", "0001", "0011"]
    found = long_pilots.rise([0, 10, 15, 20], answers, 10)
    assert found is not None
    # Two of four questions are gained in ten steps, one of them halfway.
    assert found.mean == pytest.approx(5.0)


def test_the_pilots_of_the_page_are_drawn() -> None:
    pilots = json.loads(long_pilots.NUMBERS.read_text(encoding="utf-8"))
    assert len(long_pilots.draw(pilots).axes[0].lines) == len(pilots)
