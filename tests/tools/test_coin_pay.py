"""No coin pays its teacher, whatever solve rate it is made for, whatever the reward and however answers differ."""

from __future__ import annotations

from statistics import fmean

import pytest

from redqueen.method.rewards import TEACHER_REWARDS
from tools.coin_pay import ALIKE, RATES, Row, games, rows


@pytest.fixture(scope="module")
def table() -> list[Row]:
    return rows(trials=400, attempts=(6,))


@pytest.mark.slow
def test_the_table_has_every_rate_and_reward(table: list[Row]) -> None:
    assert len(table) == len(RATES) * len(TEACHER_REWARDS)


@pytest.mark.slow
def test_a_coin_earns_less_than_a_task_that_pays_nothing(table: list[Row]) -> None:
    # The best of all coins earns -0.04 on average: the one of 50 %, paid by learnability, where no two answers are
    # equal. The standard error of 400 games is 0.05, and they are the same games each time.
    assert max(coin for row in table for coin in row.coins) < 0.05
    assert all(coin < row.honest - 0.3 for row in table for coin in row.coins)
    assert all(row.honest > 0 for row in table)


def test_a_coin_on_equal_answers_is_always_found(table: list[Row]) -> None:
    assert {row.found[ALIKE.index(1.0)] for row in table} == {1.0}


def test_answers_are_alike_as_often_as_in_the_runs_that_were_counted() -> None:
    texts = [[each.rollout.completion.text for each in attempted] for _, attempted, _ in games(0.5, 6, 1 / 3, 400)]
    assert fmean(len(set(each)) < len(each) for each in texts) == pytest.approx(94 / 166, abs=0.1)
