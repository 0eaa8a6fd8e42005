"""Every ablation is one recipe override, and selection does what it says."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import get_args

import pytest

from redqueen.config import Config, ConfigError
from redqueen.config.game import Crossover, Mutation
from redqueen.config.recipes import configure
from redqueen.method.evolution import OPERATORS, plan
from redqueen.method.matchmaking import matchmake
from redqueen.method.population import Population
from redqueen.method.rating import Rating, TrueSkill
from redqueen.method.selection import Birth

CONTROLS = {"copy_parent", "fresh", "linear_mean"}


def births(*overrides: str, size: int = 4, rounds: int = 40) -> list[Birth]:
    """The births that many rounds of evolution plan for a population of `size` a side after its burn-in."""
    config = configure(["paper_7b", f"population.teachers={size}", f"population.students={size}", *overrides])
    children: list[Birth] = []
    for round_ in range(rounds):
        table = Population()
        rng = random.Random(round_)
        for role in ("teacher", "student"):
            for _ in range(size):
                member = table.add_member(role, 0)
                table.members[member.name] = replace(
                    member,
                    rating=Rating(rng.uniform(10, 40), 2),
                    wins=9,
                    rewards=(rng.random(),),
                    learnability=(rng.random(),),
                    held_out=rng.random(),
                )
        step = config.evolution.every * (round_ + 1)
        for role in ("teacher", "student"):
            children += plan(table, role, step, config.evolution_settings)
            assert plan(table, role, step - 1, config.evolution_settings) == []
    return children


def used(children: list[Birth]) -> set[str]:
    assert children
    return {b.operator for b in children}


def test_evolution_off() -> None:
    assert births("evolution.enabled=off") == []


def test_mutation_only() -> None:
    children = births("evolution.crossover=0")
    assert {len(b.parents) for b in children} == {1}
    assert used(children) == set(Config().evolution.mutations)


def test_crossover_only() -> None:
    children = births("evolution.crossover=1")
    assert {len(b.parents) for b in children} == {2}
    assert used(children) == set(Config().evolution.crossovers)


@pytest.mark.parametrize("name", get_args(Mutation))
def test_each_mutation_alone(name: str) -> None:
    assert used(births(f"evolution.mutations={name}", "evolution.crossover=0")) == {name} <= set(OPERATORS)


@pytest.mark.parametrize("name", get_args(Crossover))
def test_each_crossover_alone(name: str) -> None:
    assert used(births(f"evolution.crossovers={name}", "evolution.crossover=1")) == {name} <= set(OPERATORS)


def test_controls_only() -> None:
    assert used(births("evolution.mutations=copy_parent,fresh", "evolution.crossovers=linear_mean")) == CONTROLS


@pytest.mark.parametrize("name", ["balanced", "hard", "uniform", "round_robin"])
def test_each_matchmaking(name: str) -> None:
    config = configure(["paper_7b", f"league.matchmaking={name}"])
    ratings = {f"{i}": Rating() for i in range(4)}
    weighting, trueskill = config.league.matchmaking, TrueSkill()
    drawn = matchmake(ratings, ratings, weighting=weighting, trueskill=trueskill, rng=random.Random(0))
    assert Counter(m.teacher for m in drawn) == Counter(list(ratings))


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_sizes(size: int) -> None:
    children = births(size=size)
    assert (len(children) > 0) == (size > 1)
    if size == 2:
        assert {len(b.parents) for b in children} == {1}
    if size in (4, 8):
        assert len(children) == 40 * 2 * size // 4


@pytest.mark.parametrize("override", ["survivors=tournament", "parents=tournament", "parents=uniform", "elite=2"])
def test_each_selection(override: str) -> None:
    assert len(births(f"evolution.{override}")) == 80


@pytest.mark.parametrize("name", ["lcb", "mean_reward", "learnability", "held_out"])
def test_each_fitness(name: str) -> None:
    by_name = births(f"league.student_fitness={name}")
    assert len(by_name) == 80
    students = [b for b in by_name if b.victim[0] == "S"]
    others = [b for b in births() if b.victim[0] == "S"]
    assert (students == others) == (name == "lcb")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["league.teacher_fitness=held_out"], "held_out is for students only"),
        (["league.teacher_fitness=elo"], "league.teacher_fitness"),
        (["evolution.elite=2"], "protects all 2 members of a role"),
        (["league.hall_matches=0.2"], "set league.hall_of_fame"),
        (["league.hall_of_fame=-1"], "league.hall_of_fame"),
        (["evolution.min_distance=2"], "evolution.min_distance"),
        (["evolution.contestants=0"], "evolution.contestants"),
        (["learning.lr_warmup=-1"], "learning.lr_warmup"),
        (
            ["population.teachers=1", "population.students=1", "population.single_agent=yes", "league.hall_of_fame=1"],
            "the single agent plays itself",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        Config().override(overrides)
    assert "\n" not in str(caught.value)
