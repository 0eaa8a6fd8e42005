"""What holds for every operator, whatever it does."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redqueen.adapters.factors import Factors
from redqueen.adapters.operators import CONTROLS, CROSSOVERS, MUTATIONS

ALL = MUTATIONS | CROSSOVERS | CONTROLS
TWO_PARENTS = {*CROSSOVERS, "linear_mean"}
# in, out, rank: rank above in, above out, above both; rank 1; single rows and columns.
SHAPES = [(8, 6, 3), (1, 1, 1), (7, 5, 1), (3, 9, 5), (9, 2, 4), (2, 2, 6), (16, 1, 2), (1, 16, 2)]

every = pytest.mark.parametrize("name", ALL)


def parents_for(name, make, **form):
    return [make.adapter(seed, **form) for seed in ((1, 2) if name in TWO_PARENTS else (1,))]


@every
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_form_is_kept_and_parents_are_untouched(name, shape, dtype, make):
    n_in, n_out, rank = shape
    parents = parents_for(name, make, n_in=n_in, n_out=n_out, rank=rank, dtype=dtype)
    before = [{s: Factors(f.a.clone(), f.b.clone()) for s, f in p.items()} for p in parents]
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
def test_child_shares_no_storage(name, make):
    parents = parents_for(name, make)
    taken = {t.untyped_storage().data_ptr() for p in parents for f in p.values() for t in (f.a, f.b)}
    own = [t.untyped_storage().data_ptr() for f in ALL[name](parents, make.generator(0)).values() for t in (f.a, f.b)]
    assert not taken & set(own)
    assert len(set(own)) == len(own)


@every
def test_trainable_parents_give_a_child_without_history(name, make):
    parents = [
        {s: Factors(f.a.requires_grad_(), f.b.requires_grad_()) for s, f in p.items()} for p in parents_for(name, make)
    ]
    for f in ALL[name](parents, make.generator(0)).values():
        assert not f.a.requires_grad
        assert not f.b.requires_grad
    assert all(f.a.requires_grad for f in parents[0].values())


@every
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_same_seed_same_child_whatever_the_order_of_sites(name, make, seed):
    parents = parents_for(name, make, sites=make.sites[:3])
    child = ALL[name](parents, make.generator(seed))
    assert make.same(child, ALL[name](parents, make.generator(seed)))
    backwards = [dict(reversed(p.items())) for p in parents]
    assert make.same(child, ALL[name](backwards, make.generator(seed)))


@pytest.mark.parametrize("name", [*MUTATIONS, *CROSSOVERS, "fresh"])
@pytest.mark.parametrize("rank", [1, 3])
def test_another_seed_gives_another_child(name, rank, make):
    parents = parents_for(name, make, rank=rank)
    children = [ALL[name](parents, make.generator(seed)) for seed in range(8)]
    different = sum(not make.same(children[0], child) for child in children[1:])
    # Where the choice is a coin and a cut, chance repeats a child now and then.
    assert different >= (1 if name == "svd_subspace" else 7)


@every
def test_global_random_state_is_not_used(name, make):
    parents = parents_for(name, make)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    child = ALL[name](parents, make.generator(3))
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(1)
    assert make.same(child, ALL[name](parents, make.generator(3)))


@every
@pytest.mark.parametrize("shape", SHAPES)
def test_an_untrained_adapter_stays_untrained_and_trainable(name, shape, make):
    n_in, n_out, rank = shape
    form = {"n_in": n_in, "n_out": n_out, "rank": rank}
    parents = [make.zero(seed, **form) for seed in ((1, 2) if name in TWO_PARENTS else (1,))]
    for f in ALL[name](parents, make.generator(0)).values():
        assert (f.b == 0).all()
        assert (f.a != 0).any(dim=0).all()


@pytest.mark.parametrize("name", [n for n in ALL if n not in ("full_gaussian", "layer_gaussian", "slot_swap", "fresh")])
def test_an_untrained_adapter_keeps_its_first_parents_a(name, make):
    parents = [make.zero(1), make.zero(2)]
    child = ALL[name](parents if name in TWO_PARENTS else parents[:1], make.generator(0))
    assert all(torch.equal(f.a, parents[0][s].a) for s, f in child.items())


@every
def test_no_slot_is_dead_on_both_sides(name, make):
    # Rank 6 on a 4-wide layer: at least two slots can carry no component of the update.
    parents = parents_for(name, make, n_in=4, n_out=5, rank=6)
    for f in ALL[name](parents, make.generator(0)).values():
        assert (f.a != 0).any(dim=0).all()


@every
@pytest.mark.parametrize("scale", [1e-12, 1e6])
def test_tiny_and_huge_updates_stay_finite(name, scale, make):
    parents = [{s: Factors(f.a, f.b * scale) for s, f in p.items()} for p in parents_for(name, make)]
    for f in ALL[name](parents, make.generator(0)).values():
        assert f.a.isfinite().all()
        assert f.b.isfinite().all()


@pytest.mark.parametrize("name", [*CROSSOVERS, "linear_mean", "copy_parent"])
def test_identical_parents_breed_around_themselves(name, make):
    parent = make.adapter(1)
    child = ALL[name]([parent, parent], make.generator(0))
    for site, f in child.items():
        wanted, got = make.dense(parent[site]), make.dense(f)
        if name == "dare":
            assert (got - wanted).norm() < 3 * wanted.norm()
        else:
            torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "name", ["svd_spectral", "component_mask", "full_gaussian", "dare", "svd_subspace", "extrapolate"]
)
def test_the_child_is_balanced(name, make):
    for f in ALL[name](parents_for(name, make), make.generator(0)).values():
        gram_a, gram_b = f.a.T @ f.a, f.b @ f.b.T
        alive = gram_b.diagonal() > 0
        if name != "svd_spectral":  # there the columns stay orthogonal too, by rotation of an orthonormal basis
            assert alive.any() or name == "component_mask"
        torch.testing.assert_close(gram_a[alive][:, alive], gram_b[alive][:, alive], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_diverged_parent_is_refused(name, bad, make):
    parents = parents_for(name, make)
    next(iter(parents[0].values())).a[0, 0] = bad
    with pytest.raises(ValueError, match="finite"):
        ALL[name](parents, make.generator(0))


@every
def test_no_parents_is_refused(name, make):
    with pytest.raises(ValueError, match="parent"):
        ALL[name]([], make.generator(0))


@pytest.mark.parametrize("name", sorted(TWO_PARENTS))
@pytest.mark.parametrize(
    "other",
    [{"rank": 2}, {"n_in": 9}, {"dtype": torch.bfloat16}, {"sites": ("model.layers.0.self_attn.q_proj",)}],
)
def test_parents_that_do_not_match_are_refused(name, other, make):
    with pytest.raises(ValueError, match="parents differ"):
        ALL[name]([make.adapter(1), make.adapter(2, **other)], make.generator(0))


@pytest.mark.parametrize("name", CROSSOVERS)
def test_a_crossover_takes_exactly_two(name, make):
    for count in (1, 3):
        with pytest.raises(ValueError, match="two parents"):
            ALL[name]([make.adapter(i) for i in range(count)], make.generator(0))


def test_the_names_are_the_designs():
    assert [*MUTATIONS] == ["svd_spectral", "layer_gaussian", "component_mask", "full_gaussian"]
    assert [*CROSSOVERS] == ["dare", "slot_swap", "svd_subspace", "extrapolate"]
    assert [*CONTROLS] == ["copy_parent", "linear_mean", "fresh"]


@every
def test_torchs_default_dtype_makes_no_difference(name, make):
    parents = parents_for(name, make)
    child = ALL[name](parents, make.generator(0))
    torch.set_default_dtype(torch.bfloat16)
    try:
        again = ALL[name](parents, make.generator(0))
    finally:
        torch.set_default_dtype(torch.float32)
    assert make.same(child, again)
