"""The plans of the experiments: arms differ in who plays, and the runs come in the order of the pages."""

from __future__ import annotations

import pytest

from redqueen.config.recipes import configure
from tools.experiments import CODE, EXPERIMENTS, EXPR, OWN, WORK, Experiment

CASES = [
    pytest.param(each, arm, id=f"{each.prefix}{arm}")
    for each in (CODE, EXPR, WORK)
    for arm in each.arms
    if not arm.startswith("W")
]


@pytest.mark.parametrize(("experiment", "arm"), CASES)
def test_arms_differ_in_who_plays_and_in_nothing_else(experiment: Experiment, arm: str) -> None:
    config = configure(experiment.settings(arm))
    whole = configure(experiment.settings("E"))
    assert (config.run, config.evals.every) == (whole.run, whole.evals.every)
    # Only the rate of teachers is changed. A single agent and `rlvr` have none of their own.
    same_rate = config.learning.model_copy(update={"teacher_lr": whole.learning.teacher_lr})
    assert same_rate == whole.learning
    changed = config.learning.teacher_lr != whole.learning.teacher_lr
    single = config.population.single_agent or (experiment is CODE and arm in ("R", "S", "P"))
    # In the experiment with work all members have one rate anyway.
    assert changed == (single and experiment is not WORK)
    assert config.sampling == whole.sampling
    assert (config.game.kinds, config.game.proposals, config.game.attempts) == (
        whole.game.kinds,
        whole.game.proposals,
        whole.game.attempts,
    )


@pytest.mark.parametrize("arm", OWN.arms)
def test_arms_on_own_tasks_differ_in_who_plays_and_what_is_posed(arm: str) -> None:
    config = configure(OWN.settings(arm))
    mixed = configure(OWN.settings("M"))
    assert (config.run, config.evals, config.learning) == (mixed.run, mixed.evals, mixed.learning)
    assert config.sampling == mixed.sampling
    same = {"seed_tasks", "own_share", "pick"}
    assert config.game.model_dump(exclude=same) == mixed.game.model_dump(exclude=same)
    assert (config.game.seed_tasks == 32) == (arm != "U")


def test_the_arms_that_matter_most_come_first_seed_by_seed() -> None:
    order = list(CODE.plan())
    assert order[:6] == [("C", 0), ("A", 0), ("E", 0), ("R", 0), ("C", 1), ("A", 1)]
    assert len(order) == sum(CODE.seeds.values()) == 34
    assert list(CODE.plan("R", 2)) == [("R", 0), ("R", 1)]


def test_in_expr_every_arm_gets_its_first_seed_before_another_one_its_second() -> None:
    order = list(EXPR.plan())
    assert {arm for arm, _ in order[: len(EXPR.arms)]} == EXPR.arms.keys()
    assert {seed for _, seed in order[: len(EXPR.arms)]} == {0}


def test_names_of_runs_do_not_collide() -> None:
    names = [f"{each.prefix}{arm}-{seed}" for each in EXPERIMENTS.values() for arm, seed in each.plan()]
    assert len(set(names)) == len(names)
