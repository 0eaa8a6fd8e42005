"""The plan of docs/RESULTS.md: arms differ in who plays, and the runs come in the order of the page."""

from __future__ import annotations

import pytest

from redqueen.recipes import configure
from tools import results


@pytest.mark.parametrize("arm", sorted(results.ARMS))
def test_arms_differ_in_who_plays_and_in_nothing_else(arm: str) -> None:
    config = configure([*results.ARMS[arm], *results.COMMON])
    whole = configure([*results.ARMS["E"], *results.COMMON])
    assert (config.run, config.evals.every) == (whole.run, whole.evals.every)
    # Only the rate of teachers is changed; students alone have none.
    same_rate = config.learning.model_copy(update={"teacher_lr": whole.learning.teacher_lr})
    assert same_rate == whole.learning
    assert (config.learning.teacher_lr == whole.learning.teacher_lr) == (arm not in ("R", "S", "P", "Q"))
    assert config.sampling == whole.sampling
    assert (config.game.kinds, config.game.proposals, config.game.attempts) == (
        whole.game.kinds,
        whole.game.proposals,
        whole.game.attempts,
    )


def test_the_arms_that_matter_most_come_first_seed_by_seed() -> None:
    order = list(results.plan(None, None))
    assert order[:7] == [("C", 0), ("A", 0), ("E", 0), ("R", 0), ("T", 0), ("C", 1), ("A", 1)]
    assert len(order) == sum(results.SEEDS.values()) == 34
    assert list(results.plan("R", 2)) == [("R", 0), ("R", 1)]
