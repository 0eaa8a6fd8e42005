"""Selection: which members are replaced, which become parents, and which are protected."""

import random
from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen import plugins
from redqueen.config import Config, ConfigError, EvolutionConfig
from redqueen.config.game import ParentSelection, SurvivorSelection
from redqueen.method.fitness import PARENTS, SURVIVORS, Fitness, lcb, named_fitness
from redqueen.method.population import Member
from redqueen.method.rating import Rating
from redqueen.method.selection import Birth, plan_births, ranking
from redqueen.plugins import PluginError

MUTATIONS = ("svd_spectral", "full_gaussian")
CROSSOVERS = ("dare", "slot_swap")


def member(name: str, rating: Rating, games: int = 10, rewards: tuple[float, ...] = ()) -> Member:
    return Member(name, "student", 0, rating=rating, wins=games, rewards=rewards)


def ladder(size: int, games: int = 10) -> list[Member]:
    """m0 is the fittest, the last the weakest."""
    return [member(f"m{i}", Rating(40 - i, 1), games) for i in range(size)]


def plan(members: Sequence[Member], seed: int = 0, fitness: Fitness | None = None, **changes: object) -> list[Birth]:
    # copied without validation: the rules hold at the edges that the configuration refuses, such as gamma = 1
    settings = {"mutations": MUTATIONS, "crossovers": CROSSOVERS, **changes}
    config = EvolutionConfig().model_copy(update=settings)
    return plan_births(members, config, fitness or lcb(3.0), random.Random(seed))


@given(
    mus=st.lists(st.integers(0, 5), max_size=12),
    games=st.integers(0, 8),
    gamma=st.floats(0, 1),
    crossing=st.floats(0, 1),
    seed=st.integers(0, 10**6),
)
def test_invariants(mus, games, gamma, crossing, seed):
    rng = random.Random(seed)
    members = [member(f"m{i}", Rating(mu, 2), games + rng.randrange(5)) for i, mu in enumerate(mus)]
    births = plan(members, seed, gamma=gamma, crossover=crossing)
    games_of = {s.name: s.games for s in members}
    fitness = {s.name: s.rating.lcb() for s in members}
    victims = [b.victim for b in births]
    assert len(set(victims)) == len(victims)
    assert len(victims) < max(1, len(members))
    for birth in births:
        assert games_of[birth.victim] >= 5
        assert not set(birth.parents) & set(victims)
        assert len(set(birth.parents)) == len(birth.parents)
        assert birth.operator in (CROSSOVERS if len(birth.parents) == 2 else MUTATIONS)
        assert list(birth.parents) == sorted(birth.parents, key=lambda m: -fitness[m])
    shuffled = random.Random(seed).sample(members, len(members))
    assert plan(shuffled, seed, gamma=gamma, crossover=crossing) == births


@pytest.mark.parametrize(
    ("size", "gamma", "expected"),
    [
        (4, 0.25, ["m3"]),
        (4, 0.5, ["m3", "m2"]),
        (4, 1.0, ["m3", "m2", "m1"]),
        (10, 0.3, ["m9", "m8", "m7"]),
        (2, 0.5, ["m1"]),
        (1, 1.0, []),
        (0, 0.5, []),
        (4, 0.0, []),
    ],
)
def test_the_bottom_fraction_goes_weakest_first(size, gamma, expected):
    assert [b.victim for b in plan(ladder(size), gamma=gamma)] == expected


def test_a_fraction_is_not_lost_to_rounding():
    for seed in range(50):
        assert len(plan(ladder(100), seed, gamma=0.29)) == 29


@pytest.mark.parametrize(("size", "gamma"), [(2, 0.35), (4, 0.1), (5, 0.5), (4, 0.95)])
def test_gamma_is_the_share_that_is_replaced_on_average(size, gamma):
    counts = [len(plan(ladder(size), seed, gamma=gamma)) for seed in range(3000)]
    assert max(counts) - min(counts) <= 1
    # Of four no more than three can go, whatever gamma is.
    assert fmean(counts) == pytest.approx(min(gamma * size, size - 1), abs=0.04)


def test_burn_in_spares_the_newborn_and_nobody_dies_in_its_stead():
    members = [*ladder(3), member("newborn", Rating(), games=4)]
    assert plan(members) == []
    assert [b.victim for b in plan(members, gamma=0.5)] == ["m2"]
    assert [b.victim for b in plan([*ladder(3), member("newborn", Rating(), games=5)])] == ["newborn"]


def test_the_bound_counts_sigma_and_the_default_does_not():
    unsure = member("unsure", Rating(40, 9))
    sure = member("sure", Rating(30, 1))
    assert [b.victim for b in plan([unsure, sure], gamma=0.5)] == ["unsure"]
    births = plan([unsure, sure], gamma=0.5, burn_in=0, crossover=0.0, fitness=lcb(0.0))
    assert [b.victim for b in births] == ["sure"]


def test_equal_fitness_is_decided_by_mean_reward_and_counted():
    equals = [member(name, Rating(), rewards=(reward,)) for name, reward in (("a", 0.1), ("b", -0.2), ("c", 0.3))]
    for seed in range(20):
        assert [(b.victim, b.tie) for b in plan(equals, seed, gamma=0.34)] == [("b", True)]
    assert [b.tie for b in plan(ladder(4))] == [False]


def test_equal_members_are_drawn_and_never_chosen_by_name():
    equals = [member(name, Rating()) for name in "bdca"]
    died = Counter(plan(equals, seed)[0].victim for seed in range(4000))
    for name in "abcd":
        assert died[name] / 4000 == pytest.approx(1 / 4, abs=0.03)


def test_a_lone_survivor_mutates():
    births = plan(ladder(3), gamma=1.0, crossover=1.0)
    assert [b.parents for b in births] == [("m0",), ("m0",)]
    assert all(b.operator in MUTATIONS for b in births)


def test_fitter_survivors_breed_more_in_proportion_to_rank():
    draws = Counter(plan(ladder(4), seed, crossover=0.0)[0].parents[0] for seed in range(3000))
    for member, share in (("m0", 3 / 6), ("m1", 2 / 6), ("m2", 1 / 6)):
        assert draws[member] / 3000 == pytest.approx(share, abs=0.03)


def test_the_crossover_probability_and_every_operator_are_used():
    births = [plan(ladder(4), seed)[0] for seed in range(2000)]
    assert sum(len(b.parents) == 2 for b in births) / 2000 == pytest.approx(0.5, abs=0.04)
    assert {b.operator for b in births} == {*MUTATIONS, *CROSSOVERS}


@pytest.mark.parametrize(
    "override",
    [
        "gamma=-0.1",
        "gamma=1.5",
        "burn_in=-1",
        "crossover=2",
        "mutations=",
        "crossovers=",
        "survivors=rank",
        "parents=truncation",
        "contestants=0",
        "elite=-1",
    ],
)
def test_the_configuration_refuses_what_cannot_be_planned(override: str) -> None:
    with pytest.raises(ConfigError, match=f"evolution.{override.partition('=')[0]}"):
        Config().override([f"evolution.{override}"])


def test_the_configuration_knows_every_selection_and_no_other() -> None:
    assert set(get_args(SurvivorSelection)) == set(SURVIVORS)
    assert set(get_args(ParentSelection)) == set(PARENTS)


def test_a_rule_of_a_plugin_sees_the_members_and_must_give_ranks(monkeypatch):
    monkeypatch.setattr(plugins, "_parts", {})

    @plugins.survivors
    def strongest(members, places, contestants, rng):
        assert [member.name for member in members] == ["m1", "m2", "m3"], "without the elite, fittest first"
        return {0}

    @plugins.parents
    def last(survivors, count, contestants, rng):
        return [len(survivors) - 1]

    (birth,) = plan(ladder(4), survivors="strongest", parents="last", elite=1, crossover=0.0)
    assert (birth.victim, birth.parents) == ("m1", ("m3",))

    plugins.survivors(lambda members, places, contestants, rng: {7})
    plugins.parents(lambda survivors, count, contestants, rng: [0] * (count + 1))
    with pytest.raises(PluginError, match=r"the survivor rule '<lambda>' gave \{7\}: it needs 1 of the ranks below 4"):
        plan(ladder(4), survivors="<lambda>")
    with pytest.raises(PluginError, match=r"the parent rule '<lambda>' gave \[0, 0\]: it needs 1 diff"):
        plan(ladder(4), parents="<lambda>", crossover=0.0)


def test_a_member_listed_twice_is_refused():
    with pytest.raises(ValueError, match="twice"):
        plan([*ladder(3), ladder(1)[0]])


def test_births_are_the_recorded_ones():
    """A run must be repeatable with a later version, so the draws are part of the interface."""
    births = plan(ladder(6), 1, gamma=0.5)
    assert [(b.victim, b.parents, b.operator) for b in births] == [
        ("m5", ("m1", "m2"), "dare"),
        ("m4", ("m0", "m2"), "dare"),
        ("m3", ("m0",), "svd_spectral"),
    ]


@given(
    size=st.integers(0, 12),
    gamma=st.floats(0, 1),
    elite=st.integers(0, 14),
    contestants=st.integers(1, 14),
    survivors=st.sampled_from(sorted(SURVIVORS)),
    parents=st.sampled_from(sorted(PARENTS)),
    seed=st.integers(0, 10**6),
)
def test_every_selection_keeps_the_elite_and_breeds_from_those_who_stay(
    size, gamma, elite, contestants, survivors, parents, seed
):
    ways = {"elite": elite, "contestants": contestants, "survivors": survivors, "parents": parents}
    births = plan(ladder(size), seed, gamma=gamma, **ways)
    assert births == plan(ladder(size), seed, gamma=gamma, **ways)
    victims = [b.victim for b in births]
    assert len(set(victims)) == len(victims) <= max(0, min(size - 1, size - elite))
    assert not set(victims) & {f"m{i}" for i in range(elite)}
    for birth in births:
        assert birth.parents
        assert not set(birth.parents) & set(victims)
        assert len(set(birth.parents)) == len(birth.parents)
        assert list(birth.parents) == sorted(birth.parents, key=lambda m: int(m[1:]))


def shares(draws: int = 4000, **ways: object) -> tuple[Counter, Counter]:
    """Of a ladder of four with one place at risk: how often each dies and how often each is the one parent."""
    births = [plan(ladder(4), seed, crossover=0.0, **ways)[0] for seed in range(draws)]
    return Counter(b.victim for b in births), Counter(b.parents[0] for b in births)


def test_a_tournament_of_two_kills_the_weaker_of_two():
    died, _ = shares(survivors="tournament")
    # pairs of four: m3 is the weaker in 3 of 6, m2 in 2, m1 in 1
    for name, share in (("m3", 3 / 6), ("m2", 2 / 6), ("m1", 1 / 6)):
        assert died[name] / 4000 == pytest.approx(share, abs=0.03)
    assert died["m0"] == 0


def test_a_tournament_of_everybody_is_truncation_and_of_one_is_chance():
    assert set(shares(50, survivors="tournament", contestants=4)[0]) == {"m3"}
    died, _ = shares(survivors="tournament", contestants=1)
    assert all(died[f"m{i}"] / 4000 == pytest.approx(1 / 4, abs=0.03) for i in range(4))


def test_parents_by_tournament_and_by_chance():
    _, fathers = shares(parents="tournament")
    # pairs of three survivors: m0 is the fitter in 2 of 3, m1 in 1
    assert fathers["m0"] / 4000 == pytest.approx(2 / 3, abs=0.03)
    assert fathers["m2"] == 0
    _, fathers = shares(parents="uniform")
    assert all(fathers[f"m{i}"] / 4000 == pytest.approx(1 / 3, abs=0.03) for i in range(3))


def test_the_loser_of_a_tournament_that_has_not_played_enough_stays_and_nobody_dies_for_it():
    members = [*ladder(3), member("newborn", Rating(), games=4)]
    assert plan(members, survivors="tournament", contestants=4) == []


def test_an_elite_as_large_as_the_role_ends_evolution():
    assert plan(ladder(4), gamma=1.0, elite=4) == []
    assert [b.victim for b in plan(ladder(4), gamma=1.0, elite=3)] == ["m3"]


def test_an_unknown_fitness_ranks_last():
    known = member("z", Rating(1, 1), rewards=(-1.0,))
    unknown = [member("b", Rating(30, 1)), member("a", Rating(30, 1))]
    ranked = ranking([*unknown, known], named_fitness("mean_reward"), random.Random(0))
    assert ranked[0] == known
    held_out = [member("a", Rating(), rewards=(0.1,)), member("b", Rating()), member("c", Rating(), rewards=(0.2,))]
    ranked = ranking(held_out, named_fitness("held_out"), random.Random(0))
    assert [m.name for m in ranked] == ["c", "a", "b"], "all unknown: the mean reward decides, and none is below any"
