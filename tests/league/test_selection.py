"""Who goes, who breeds, and who is spared."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.league import Rating, Standing, plan_births

MUTATIONS = ("svd_spectral", "full_gaussian")
CROSSOVERS = ("dare", "slot_swap")


def ladder(size: int, games: int = 10) -> list[Standing]:
    """m0 is the fittest, the last the weakest."""
    return [Standing(f"m{i}", Rating(40 - i, 1), games) for i in range(size)]


def plan(standings, seed=0, **changes):
    settings = {
        "gamma": 0.25,
        "burn_in": 5,
        "crossover_probability": 0.5,
        "mutations": MUTATIONS,
        "crossovers": CROSSOVERS,
    }
    return plan_births(standings, **(settings | changes), rng=random.Random(seed))


@given(
    mus=st.lists(st.integers(0, 5), max_size=12),
    games=st.integers(0, 8),
    gamma=st.floats(0, 1),
    crossing=st.floats(0, 1),
    seed=st.integers(0, 10**6),
)
def test_invariants(mus, games, gamma, crossing, seed):
    rng = random.Random(seed)
    standings = [Standing(f"m{i}", Rating(mu, 2), games + rng.randrange(5)) for i, mu in enumerate(mus)]
    births = plan(standings, seed, gamma=gamma, crossover_probability=crossing)
    games_of = {s.member: s.games for s in standings}
    fitness = {s.member: s.rating.lcb() for s in standings}
    victims = [b.victim for b in births]
    assert len(set(victims)) == len(victims)
    assert len(victims) < max(1, len(standings))
    for birth in births:
        assert games_of[birth.victim] >= 5
        assert not set(birth.parents) & set(victims)
        assert len(set(birth.parents)) == len(birth.parents)
        assert birth.operator in (CROSSOVERS if len(birth.parents) == 2 else MUTATIONS)
        assert list(birth.parents) == sorted(birth.parents, key=lambda m: -fitness[m])
    shuffled = random.Random(seed).sample(standings, len(standings))
    assert plan(shuffled, seed, gamma=gamma, crossover_probability=crossing) == births


@pytest.mark.parametrize(
    ("size", "gamma", "expected"),
    [
        (4, 0.25, ["m3"]),
        (4, 0.1, ["m3"]),
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
    assert len(plan(ladder(100), gamma=0.29)) == 29


def test_burn_in_spares_the_newborn_and_nobody_dies_in_its_stead():
    standings = [*ladder(3), Standing("newborn", Rating(), games=4)]
    assert plan(standings) == []
    assert [b.victim for b in plan(standings, gamma=0.5)] == ["m2"]
    assert [b.victim for b in plan([*ladder(3), Standing("newborn", Rating(), games=5)])] == ["newborn"]


def test_fitness_is_the_lower_bound_not_the_mean():
    unsure = Standing("unsure", Rating(40, 9), 10)
    sure = Standing("sure", Rating(30, 1), 10)
    assert [b.victim for b in plan([unsure, sure])] == ["unsure"]
    births = plan_births(
        [unsure, sure],
        gamma=0.5,
        burn_in=0,
        crossover_probability=0,
        mutations=MUTATIONS,
        crossovers=(),
        rng=random.Random(0),
        k=0.0,
    )
    assert [b.victim for b in births] == ["sure"]


def test_ties_fall_to_the_name():
    assert [b.victim for b in plan([Standing(n, Rating(), 10) for n in "bdca"])] == ["d"]


def test_a_lone_survivor_mutates():
    births = plan(ladder(3), gamma=1.0, crossover_probability=1.0)
    assert [b.parents for b in births] == [("m0",), ("m0",)]
    assert all(b.operator in MUTATIONS for b in births)


def test_fitter_survivors_breed_more_in_proportion_to_rank():
    draws = Counter(plan(ladder(4), seed, crossover_probability=0.0)[0].parents[0] for seed in range(3000))
    for member, share in (("m0", 3 / 6), ("m1", 2 / 6), ("m2", 1 / 6)):
        assert draws[member] / 3000 == pytest.approx(share, abs=0.03)


def test_the_crossover_probability_and_every_operator_are_used():
    births = [plan(ladder(4), seed)[0] for seed in range(2000)]
    assert sum(len(b.parents) == 2 for b in births) / 2000 == pytest.approx(0.5, abs=0.04)
    assert {b.operator for b in births} == {*MUTATIONS, *CROSSOVERS}


@pytest.mark.parametrize(
    "changes",
    [
        {"gamma": -0.1},
        {"gamma": 1.5},
        {"burn_in": -1},
        {"crossover_probability": 2.0},
        {"mutations": ()},
        {"crossovers": ()},
    ],
)
def test_refusals(changes):
    with pytest.raises(ValueError, match=r"must be|choose from"):
        plan(ladder(4), **changes)


def test_a_member_listed_twice_is_refused():
    with pytest.raises(ValueError, match="twice"):
        plan([*ladder(3), ladder(1)[0]])
