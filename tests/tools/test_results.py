"""The plans of the experiments: arms differ in who plays, and the runs come in the order of the pages."""

from __future__ import annotations

import pytest

from redqueen.config.recipes import configure
from tools.experiments import CODE, EXPERIMENTS, EXPR, OWN, PYTHON, WORK, Experiment

FIRST = [
    pytest.param(each, arm, id=f"{each.prefix}{arm}")
    for each in (CODE, EXPR)
    for arm in each.arms
    if not arm.startswith("W")
]
WITH_WORK = [pytest.param(each, arm, id=f"{each.prefix}{arm}") for each in (WORK, OWN, PYTHON) for arm in each.arms]


@pytest.mark.parametrize(("experiment", "arm"), FIRST)
def test_arms_differ_in_who_plays_and_in_nothing_else(experiment: Experiment, arm: str) -> None:
    config = configure(experiment.settings(arm))
    whole = configure(experiment.settings("E"))
    assert (config.run, config.evals.every) == (whole.run, whole.evals.every)
    # Only the rate of teachers is changed. A single agent and `rlvr` have none of their own.
    same_rate = config.learning.model_copy(update={"teacher_lr": whole.learning.teacher_lr})
    assert same_rate == whole.learning
    changed = config.learning.teacher_lr != whole.learning.teacher_lr
    assert changed == (config.population.single_agent or (experiment is CODE and arm in ("R", "S", "P")))
    assert config.sampling == whole.sampling
    assert (config.game.kinds, config.game.proposals, config.game.attempts) == (
        whole.game.kinds,
        whole.game.proposals,
        whole.game.attempts,
    )


@pytest.mark.parametrize(("experiment", "arm"), WITH_WORK)
def test_arms_with_work_make_as_many_attempts_and_are_asked_the_same(experiment: Experiment, arm: str) -> None:
    config = configure(experiment.settings(arm))
    pair = configure(experiment.settings("H" if experiment is OWN else "C"))
    assert (config.run, config.evals, config.sampling) == (pair.run, pair.evals, pair.sampling)
    same_rate = config.learning.model_copy(update={"teacher_lr": pair.learning.teacher_lr})
    assert same_rate == pair.learning
    assert config.population.students * config.game.proposals == pair.game.proposals
    assert (config.game.kinds, config.game.attempts) == (pair.game.kinds, pair.game.attempts)
    assert (config.game.seed_tasks == 32) == (experiment is OWN and arm != "U")


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
