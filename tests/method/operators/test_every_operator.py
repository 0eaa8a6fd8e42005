"""Properties that every operator has."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redqueen.engine.adapters import Adapter, Factors
from redqueen.method.operators import CONTROLS, CROSSOVERS, MUTATIONS
from tests.method.operators import make

# Any: an operator's own parameters are keywords that the common type does not know.
ALL: dict[str, Any] = MUTATIONS | CROSSOVERS | CONTROLS
TWO_PARENTS = {*CROSSOVERS, "linear_mean"}
# in, out, rank: rank above in, above out, above both; rank 1; single rows and columns.
SHAPES = [(8, 6, 3), (1, 1, 1), (7, 5, 1), (3, 9, 5), (9, 2, 4), (2, 2, 6), (16, 1, 2), (1, 16, 2)]

every = pytest.mark.parametrize("name", ALL)


def parents_for(name: str, **form: Any) -> list[dict[str, Factors]]:
    seeds = (1, 2) if name in TWO_PARENTS else (1,)
    return [make.adapter(seed, **form) for seed in seeds]


def copied(parent: Adapter) -> dict[str, Factors]:
    return {site: Factors(factors.a.clone(), factors.b.clone()) for site, factors in parent.items()}


def storages(adapter: Adapter) -> list[int]:
    """The address of every tensor's storage."""
    tensors = [factors.a for factors in adapter.values()] + [factors.b for factors in adapter.values()]
    return [tensor.untyped_storage().data_ptr() for tensor in tensors]


@every
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_form_is_kept_and_parents_are_untouched(name: str, shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    n_in, n_out, rank = shape
    parents = parents_for(name, n_in=n_in, n_out=n_out, rank=rank, dtype=dtype)
    before = [copied(parent) for parent in parents]
    child = ALL[name](parents, make.generator(0))
    assert list(child) == list(parents[0])
    for f in child.values():
        assert (f.a.shape, f.b.shape) == ((n_in, rank), (rank, n_out))
        assert f.a.dtype == f.b.dtype == dtype
        assert f.a.isfinite().all()
        assert f.b.isfinite().all()
    for parent, copy in zip(parents, before, strict=True):
        assert make.same(parent, copy)


@every
def test_child_shares_no_storage(name: str) -> None:
    parents = parents_for(name)
    child = storages(ALL[name](parents, make.generator(0)))
    for parent in parents:
        assert not set(storages(parent)) & set(child)
    assert len(set(child)) == len(child)


@every
def test_trainable_parents_give_a_child_without_history(name: str) -> None:
    parents = parents_for(name)
    for parent in parents:
        for factors in parent.values():
            factors.a.requires_grad_()
            factors.b.requires_grad_()
    for f in ALL[name](parents, make.generator(0)).values():
        assert not f.a.requires_grad
        assert not f.b.requires_grad
    assert all(f.a.requires_grad for f in parents[0].values())


@every
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_same_seed_same_child_whatever_the_order_of_sites(name: str, seed: int) -> None:
    parents = parents_for(name, sites=make.SITES[:3])
    child = ALL[name](parents, make.generator(seed))
    assert make.same(child, ALL[name](parents, make.generator(seed)))
    backwards = [dict(reversed(p.items())) for p in parents]
    assert make.same(child, ALL[name](backwards, make.generator(seed)))


@pytest.mark.parametrize("name", [*MUTATIONS, *CROSSOVERS, "fresh"])
@pytest.mark.parametrize("rank", [1, 3])
def test_another_seed_gives_another_child(name: str, rank: int) -> None:
    parents = parents_for(name, rank=rank)
    children = [ALL[name](parents, make.generator(seed)) for seed in range(8)]
    different = sum(not make.same(children[0], child) for child in children[1:])
    # Where the choice is a coin and a cut, chance repeats a child now and then.
    assert different >= (1 if name == "svd_subspace" else 7)


@every
def test_global_random_state_is_not_used(name: str) -> None:
    parents = parents_for(name)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    child = ALL[name](parents, make.generator(3))
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(1)
    assert make.same(child, ALL[name](parents, make.generator(3)))


@every
@pytest.mark.parametrize("shape", SHAPES)
def test_an_untrained_adapter_stays_untrained_and_trainable(name: str, shape: tuple[int, int, int]) -> None:
    n_in, n_out, rank = shape
    form = {"n_in": n_in, "n_out": n_out, "rank": rank}
    parents = [make.zero(seed, **form) for seed in ((1, 2) if name in TWO_PARENTS else (1,))]
    for f in ALL[name](parents, make.generator(0)).values():
        assert (f.b == 0).all()
        assert (f.a != 0).any(dim=0).all()


CHANGES_A = ("full_gaussian", "layer_gaussian", "neftune", "slot_swap", "fresh")


@pytest.mark.parametrize("name", [n for n in ALL if n not in CHANGES_A])
def test_an_untrained_adapter_keeps_its_first_parents_a(name: str) -> None:
    parents = [make.zero(1), make.zero(2)]
    child = ALL[name](parents if name in TWO_PARENTS else parents[:1], make.generator(0))
    assert all(torch.equal(f.a, parents[0][s].a) for s, f in child.items())


@every
def test_no_slot_is_dead_on_both_sides(name: str) -> None:
    # Rank 6 on a 4-wide layer: at least two slots can carry no component of the update.
    parents = parents_for(name, n_in=4, n_out=5, rank=6)
    for f in ALL[name](parents, make.generator(0)).values():
        assert (f.a != 0).any(dim=0).all()


@every
@pytest.mark.parametrize("scale", [1e-12, 1e6])
def test_tiny_and_huge_updates_stay_finite(name: str, scale: float) -> None:
    parents: list[Adapter] = []
    for parent in parents_for(name):
        parents.append({site: Factors(factors.a, factors.b * scale) for site, factors in parent.items()})
    for f in ALL[name](parents, make.generator(0)).values():
        assert f.a.isfinite().all()
        assert f.b.isfinite().all()


@every
@settings(max_examples=15, deadline=None)
@given(
    shapes=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 128)), min_size=1, max_size=4),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    exponent=st.integers(-12, 6),
    seed=st.integers(0, 2**32),
)
def test_any_mix_of_shapes_and_ranks(
    name: str, shapes: list[tuple[int, int, int]], dtype: torch.dtype, exponent: int, seed: int
) -> None:
    parents: list[Adapter] = []
    for i in range(2 if name in TWO_PARENTS else 1):
        parent: dict[str, Factors] = {}
        for k, (n_in, n_out, rank) in enumerate(shapes):
            site = f"model.layers.{k}.x"
            f = make.adapter(seed + i, n_in=n_in, n_out=n_out, rank=rank, sites=(site,))[site]
            parent[site] = Factors(f.a.to(dtype), (f.b * 10.0**exponent).to(dtype))
        parents.append(parent)
    child = ALL[name](parents, make.generator(seed))
    for site, f in parents[0].items():
        assert (child[site].a.shape, child[site].b.shape) == (f.a.shape, f.b.shape)
        assert child[site].a.dtype == child[site].b.dtype == dtype
        assert child[site].a.isfinite().all()
        assert child[site].b.isfinite().all()


@every
@pytest.mark.parametrize("rank", [1, 2, 32, 128])
def test_a_layer_as_wide_as_real_ones(name: str, rank: int) -> None:
    parents = parents_for(name, n_in=300, n_out=200, rank=rank, sites=("layers.0.x", "layers.1.x"))
    for f in ALL[name](parents, make.generator(0)).values():
        assert (f.a.shape, f.b.shape) == ((300, rank), (rank, 200))
        assert f.a.isfinite().all()
        assert f.b.isfinite().all()


@every
def test_the_child_does_not_depend_on_the_number_of_threads(name: str) -> None:
    parents = parents_for(name, n_in=700, n_out=900, rank=16)
    children: list[Adapter] = []
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        children.append(ALL[name](parents, make.generator(0)))
        assert torch.get_num_threads() == threads
        with ThreadPoolExecutor(1) as later:  # a thread that starts afterwards
            assert later.submit(torch.get_num_threads).result() == threads
    assert all(make.same(children[0], child) for child in children[1:])


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("svd_spectral", {"epsilon": -0.1}),
        ("svd_spectral", {"epsilon": float("nan")}),
        ("layer_gaussian", {"fraction": 1.5}),
        ("layer_gaussian", {"scale": float("inf")}),
        ("component_mask", {"dropped": 1.0}),
        ("full_gaussian", {"scale": -1.0}),
        ("neftune", {"alpha": -1.0}),
        ("dare", {"dropped": 1.0}),
        ("dare", {"weight": -1.0}),
        ("extrapolate", {"low": 2.0}),
    ],
)
def test_a_parameter_that_means_nothing_is_refused(name: str, bad: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        ALL[name](parents_for(name), make.generator(0), **bad)


@pytest.mark.parametrize(
    ("name", "nothing"),
    [
        ("svd_spectral", {"epsilon": 0.0}),
        ("component_mask", {"dropped": 0.0}),
        ("full_gaussian", {"scale": 0.0}),
        ("layer_gaussian", {"scale": 0.0}),
        ("neftune", {"alpha": 0.0}),
        ("extrapolate", {"low": 1.0, "high": 1.0}),
    ],
)
def test_an_operator_of_no_strength_gives_the_parents_update(name: str, nothing: dict[str, float]) -> None:
    parents = parents_for(name)
    for site, f in ALL[name](parents, make.generator(0), **nothing).items():
        tolerance = make.rounding([parent[site] for parent in parents])
        make.assert_close(make.dense(f), make.dense(parents[0][site]), tolerance)


@pytest.mark.parametrize("a_b", [((8, 3), (2, 6)), ((8,), (6,)), ((2, 8, 3), (3, 3, 6)), ((8, 0), (0, 6))])
def test_factors_that_are_no_update_are_refused(a_b: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = a_b
    with pytest.raises(ValueError, match="no update"):
        MUTATIONS["neftune"]([{"x": Factors(torch.zeros(a), torch.zeros(b))}], make.generator(0))


@pytest.mark.parametrize("name", [*CROSSOVERS, "linear_mean", "copy_parent"])
def test_identical_parents_breed_around_themselves(name: str) -> None:
    parent = make.adapter(1)
    child = ALL[name]([parent, parent], make.generator(0))
    for site, f in child.items():
        wanted, got = make.dense(parent[site]), make.dense(f)
        if name == "dare":
            assert (got - wanted).norm() < 3 * wanted.norm()
        else:
            # extrapolate weighs most: at most 1.5 and -0.5
            make.assert_close(got, wanted, make.rounding([parent[site]] * 2, [1.5, 0.5]))


@pytest.mark.parametrize("name", ["svd_spectral", "component_mask", "svd_subspace", "extrapolate", "linear_mean"])
def test_an_operator_of_little_effect_keeps_its_parents_split(name: str) -> None:
    # The split is far from balanced, and the two parents are nearly one, so the child is nearly that one as well.
    parent = {site: Factors(8 * f.a, f.b / 4) for site, f in make.adapter(1).items()}
    near = {site: Factors(f.a * 1.0001, f.b) for site, f in parent.items()}
    parents = [parent, near] if name in TWO_PARENTS else [parent]
    weak = {"svd_spectral": {"epsilon": 1e-4}, "component_mask": {"dropped": 0.0}}.get(name, {})
    for site, f in ALL[name](parents, make.generator(0), **weak).items():
        make.assert_close(f.a, parent[site].a, 0.01 * float(parent[site].a.norm()))
        make.assert_close(f.b, parent[site].b, 0.01 * float(parent[site].b.norm()))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_diverged_parent_is_refused(name: str, bad: Any) -> None:
    parents = parents_for(name)
    next(iter(parents[0].values())).a[0, 0] = bad
    with pytest.raises(ValueError, match="finite"):
        ALL[name](parents, make.generator(0))


@every
def test_no_parents_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="parent"):
        ALL[name]([], make.generator(0))


@pytest.mark.parametrize("name", sorted(TWO_PARENTS))
@pytest.mark.parametrize(
    "other",
    [{"rank": 2}, {"n_in": 9}, {"dtype": torch.bfloat16}, {"sites": ("model.layers.0.self_attn.q_proj",)}],
)
def test_parents_that_do_not_match_are_refused(name: str, other: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="parents differ"):
        ALL[name]([make.adapter(1), make.adapter(2, **other)], make.generator(0))


@pytest.mark.parametrize("name", CROSSOVERS)
def test_a_crossover_takes_exactly_two(name: str) -> None:
    for count in (1, 3):
        with pytest.raises(ValueError, match="two parents"):
            ALL[name]([make.adapter(i) for i in range(count)], make.generator(0))


def test_the_names_are_the_designs() -> None:
    assert [*MUTATIONS] == ["svd_spectral", "layer_gaussian", "component_mask", "full_gaussian", "neftune"]
    assert [*CROSSOVERS] == ["dare", "slot_swap", "svd_subspace", "extrapolate"]
    assert [*CONTROLS] == ["copy_parent", "linear_mean", "fresh"]


@every
def test_torchs_default_dtype_makes_no_difference(name: str) -> None:
    parents = parents_for(name)
    child = ALL[name](parents, make.generator(0))
    torch.set_default_dtype(torch.bfloat16)
    try:
        again = ALL[name](parents, make.generator(0))
    finally:
        torch.set_default_dtype(torch.float32)
    assert make.same(child, again)
