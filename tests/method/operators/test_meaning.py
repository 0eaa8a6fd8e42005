"""What each operator does, against the dense formula on shapes small enough to build ΔW."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from redqueen.engine.adapters import Adapter, Factors
from redqueen.method.operators import CONTROLS, CROSSOVERS, MUTATIONS
from redqueen.method.operators.lowrank import EPSILON
from redqueen.method.operators.mutations import neftune
from tests.method.operators import make

ONE = ("model.layers.0.self_attn.q_proj",)


@pytest.mark.parametrize("shape", [(8, 6, 3), (7, 5, 1), (3, 9, 5), (9, 2, 4)])
def test_linear_mean_is_the_best_approximation_of_the_mean(shape: tuple[int, int, int]) -> None:
    n_in, n_out, rank = shape
    parents = [make.adapter(seed, n_in=n_in, n_out=n_out, rank=rank) for seed in (1, 2, 3)]
    child = CONTROLS["linear_mean"](parents, make.generator(0))
    for site, f in child.items():
        mean = torch.stack([make.dense(p[site]) for p in parents]).mean(dim=0)
        tolerance = make.rounding([p[site] for p in parents], [1 / 3] * 3)
        make.assert_close(make.dense(f), make.truncated(mean, rank), tolerance)


def test_linear_mean_of_opposites_is_zero_and_trainable() -> None:
    parent = make.adapter(1)
    opposite = {s: Factors(f.a, -f.b) for s, f in parent.items()}
    for site, f in CONTROLS["linear_mean"]([parent, opposite], make.generator(0)).items():
        assert (f.b == 0).all()
        assert torch.equal(f.a, parent[site].a)


@pytest.mark.parametrize("shape", [(8, 6, 3), (7, 5, 1), (3, 9, 5)])
def test_extrapolate_goes_one_step_past_the_fitter_parent(shape: tuple[int, int, int]) -> None:
    n_in, n_out, rank = shape
    fitter, other = (make.adapter(seed, n_in=n_in, n_out=n_out, rank=rank) for seed in (1, 2))
    eta = 1 + 0.5 * float(torch.rand((), generator=make.generator(5), dtype=torch.float64))
    for site, f in CROSSOVERS["extrapolate"]([fitter, other], make.generator(5)).items():
        dense = make.dense(other[site]) + eta * (make.dense(fitter[site]) - make.dense(other[site]))
        tolerance = make.rounding([fitter[site], other[site]], [eta, 1 - eta])
        make.assert_close(make.dense(f), make.truncated(dense, rank), tolerance)


def test_copy_parent_is_the_fitter_parent() -> None:
    parents = [make.adapter(1), make.adapter(2)]
    assert make.same(CONTROLS["copy_parent"](parents, make.generator(0)), parents[0])


def test_fresh_is_what_peft_would_start_from() -> None:
    child = CONTROLS["fresh"]([make.adapter(1, n_in=400, rank=16)], make.generator(0))
    for f in child.values():
        assert (f.b == 0).all()
        assert f.a.abs().max() <= 1 / 20
        assert float(f.a.std()) == pytest.approx(1 / 20 / 3**0.5, rel=0.05)


def test_slot_swap_takes_every_slot_from_one_parent_and_uses_both() -> None:
    parents = [make.adapter(1), make.adapter(2)]
    taken: set[int] = set()
    for site, f in CROSSOVERS["slot_swap"](parents, make.generator(0)).items():
        sources = [i for i, p in enumerate(parents) if torch.equal(f.a, p[site].a) and torch.equal(f.b, p[site].b)]
        assert len(sources) == 1
        taken.add(sources[0])
    assert taken == {0, 1}


def test_svd_subspace_joins_the_leading_part_of_one_with_the_rest_of_the_other() -> None:
    parents = [make.adapter(1, rank=4), make.adapter(2, rank=4)]
    leads: set[int] = set()
    cuts: set[int] = set()
    for seed in range(6):
        leading: set[int] = set()
        for site, f in CROSSOVERS["svd_subspace"](parents, make.generator(seed)).items():
            dense = [make.dense(p[site]) for p in parents]
            tolerance = make.rounding([p[site] for p in parents])
            matches: list[tuple[int, int]] = []
            for lead in (0, 1):
                for cut in (1, 2, 3):
                    rest = dense[1 - lead] - make.truncated(dense[1 - lead], cut)
                    wanted = make.truncated(dense[lead], cut) + rest
                    if float((make.dense(f) - wanted).norm()) <= tolerance:
                        matches.append((lead, cut))
            assert len(matches) == 1
            leading.add(matches[0][0])
            cuts.add(matches[0][1])
        assert len(leading) == 1
        leads |= leading
    assert leads == {0, 1}
    assert cuts == {1, 2, 3}


@pytest.mark.parametrize("count", [500, pytest.param(3000, marks=pytest.mark.slow)])
def test_dare_before_truncation_has_dense_dares_two_moments(count: int) -> None:
    # Rank is at least the layer's width here, so nothing is cut off and the expectation is exact.
    parents = [make.adapter(seed, n_in=4, n_out=3, rank=3, sites=ONE) for seed in (1, 2)]
    wanted = [make.dense(p[ONE[0]]) for p in parents]
    mean = (wanted[0] + wanted[1]) / 2
    draws = torch.stack(
        [make.dense(CROSSOVERS["dare"](parents, make.generator(seed))[ONE[0]]) for seed in range(count)]
    )
    noise = float((draws - mean).square().sum(dim=(1, 2)).mean())
    expected = 0.7 / 0.3 * sum(float(w.square().sum()) for w in wanted) / 4
    assert noise == pytest.approx(expected, rel=2.7 / count**0.5)
    error = draws.std(dim=0) / count**0.5
    assert ((draws.mean(dim=0) - mean).abs() < 4.5 * error).all()


def test_component_mask_keeps_some_components_unchanged_and_drops_thirty_percent() -> None:
    parent = make.adapter(1, n_in=30, n_out=25, rank=16)
    left: list[int] = []
    for seed in range(20):
        for site, f in MUTATIONS["component_mask"]([parent], make.generator(seed)).items():
            u, s, vt = torch.linalg.svd(make.dense(parent[site]), full_matrices=False)
            tolerance = make.rounding([parent[site]])
            weights = torch.diagonal(u.T @ make.dense(f) @ vt.T)[:16] / s[:16]
            error = tolerance / s[:16]
            assert (((weights - 1).abs() < error) | (weights.abs() < error)).all()
            kept = weights > 0.5
            wanted = (u[:, :16][:, kept] * s[:16][kept]) @ vt[:16][kept]
            make.assert_close(make.dense(f), wanted, tolerance)
            left.append(int(kept.sum()))
    assert {*left} == {11, 12}
    assert sum(left) / len(left) / 16 == pytest.approx(0.7, abs=0.01)


def test_component_mask_leaves_the_dropped_slots_trainable() -> None:
    parent = make.adapter(1, rank=6)
    for site, f in MUTATIONS["component_mask"]([parent], make.generator(0)).items():
        # One or two of six components are dropped. a still reads along six directions, so a gradient reaches all of b.
        assert int(torch.linalg.matrix_rank(make.dense(f), rtol=1e-4)) in (4, 5)
        assert torch.linalg.cond(f.a) < 10 * torch.linalg.cond(parent[site].a)


def spaced(rank: int, sites: int) -> dict[str, Factors]:
    """An adapter whose singular values are so far apart that a small change does not exchange two of them."""
    g = make.generator(1)
    found: dict[str, Factors] = {}
    for i in range(sites):
        u = torch.linalg.qr(torch.randn(24, rank, generator=g))[0]
        v = torch.linalg.qr(torch.randn(24, rank, generator=g))[0]
        found[f"l.{i}"] = Factors(u * 2.0 ** torch.arange(rank), v.T.contiguous())
    return found


def test_svd_spectral_keeps_the_subspaces_and_moves_a_little() -> None:
    parent = spaced(rank=8, sites=40)
    logs: list[torch.Tensor] = []
    moved: list[float] = []
    for site, f in MUTATIONS["svd_spectral"]([parent], make.generator(0)).items():
        wanted, got = make.dense(parent[site]), make.dense(f)
        u, s, vt = torch.linalg.svd(wanted, full_matrices=False)
        u = u[:, :8]
        s = s[:8]
        vt = vt[:8]
        make.assert_close(u @ (u.T @ got @ vt.T) @ vt, got, make.rounding([parent[site]]))
        moved.append(float((got - wanted).norm() / wanted.norm()))
        logs.append((torch.linalg.svdvals(got)[:8] / s).log())
    assert min(moved) > 0.05
    assert max(moved) < 0.4
    jitter = torch.cat(logs)
    assert float(jitter.mean()) == pytest.approx(0, abs=0.02)
    assert float(jitter.std()) == pytest.approx(0.1, abs=0.015)


def test_svd_spectral_rotates_by_about_epsilon_at_every_rank() -> None:
    for rank in (4, 8, 16):
        parent = spaced(rank, sites=20)
        tilts: list[torch.Tensor] = []
        for site, f in MUTATIONS["svd_spectral"]([parent], make.generator(0)).items():
            before, after = (torch.linalg.svd(make.dense(x))[0][:, :rank] for x in (parent[site], f))
            tilts.append(torch.arccos((before * after).sum(dim=0).abs().clamp(max=1)))
        assert 0.07 < float(torch.cat(tilts).square().mean().sqrt()) < 0.12


@pytest.mark.parametrize("name", ["svd_spectral", "component_mask"])
def test_spectral_operators_do_not_see_how_the_update_is_split(name: str) -> None:
    parent = make.adapter(1)
    mix = torch.eye(3) + 0.3 * torch.randn(3, 3, generator=make.generator(9))
    split_otherwise = {s: Factors(f.a @ mix, torch.linalg.inv(mix) @ f.b) for s, f in parent.items()}
    one, other = (MUTATIONS[name]([p], make.generator(4)) for p in (parent, split_otherwise))
    for site, f in parent.items():
        # the other split is rounded to fp32, and an error turns a component by error / (distance to the next)
        s = torch.linalg.svdvals(make.dense(f))[:3]
        gain = float((s[:-1] / (s[:-1] - s[1:])).max())
        split = 3 * EPSILON * float(torch.linalg.cond(mix)) * make.size([f])
        tolerance = make.rounding([f]) + make.rounding([split_otherwise[site]]) + split * gain
        make.assert_close(make.dense(one[site]), make.dense(other[site]), tolerance)


def test_full_gaussian_noise_is_in_proportion_to_each_tensor() -> None:
    parent = make.adapter(1, n_in=60, n_out=50, rank=8)
    for site, f in MUTATIONS["full_gaussian"]([parent], make.generator(0)).items():
        wanted = make.dense(parent[site])
        relative = float((make.dense(f) - wanted).norm() / wanted.norm())
        # Two factors, each with independent relative noise 0.15.
        assert relative == pytest.approx(0.15 * 2**0.5, rel=0.2)


@pytest.mark.parametrize(("layers", "changed"), [(1, 1), (2, 1), (3, 1), (6, 2), (28, 9)])
def test_layer_gaussian_changes_a_third_of_the_layers_whole(layers: int, changed: int) -> None:
    sites = tuple(f"model.layers.{layer}.{module}" for layer, module in product(range(layers), make.MODULES))
    parent = make.adapter(1, sites=sites)
    child = MUTATIONS["layer_gaussian"]([parent], make.generator(0))
    touched = [s for s in sites if not torch.equal(child[s].a, parent[s].a)]
    assert len({s.split(".")[2] for s in touched}) == changed
    assert len(touched) == 2 * changed


def test_layer_gaussian_takes_unnumbered_sites_as_layers() -> None:
    sites = ("embed", "2.proj", "2.up", "mlp1.up", "layers.10.x", "layers.1.x")
    parent = make.adapter(1, sites=sites)
    seen: set[frozenset[str]] = set()
    for seed in range(40):
        child = MUTATIONS["layer_gaussian"]([parent], make.generator(seed))
        seen.add(frozenset(s for s in sites if not torch.equal(child[s].a, parent[s].a)))
    groups = [{"embed"}, {"2.proj", "2.up"}, {"mlp1.up"}, {"layers.10.x"}, {"layers.1.x"}]
    for touched in seen:
        # Two of the groups are changed whole, and no other is changed in part.
        assert sum(group <= touched for group in groups) == 2
        assert sum(bool(group & touched) for group in groups) == 2


def test_a_bf16_child_is_the_rounded_fp32_child() -> None:
    parents = [make.adapter(1, dtype=torch.bfloat16), make.adapter(2, dtype=torch.bfloat16)]
    wide: list[Adapter] = []
    for parent in parents:
        wide.append({site: Factors(factors.a.float(), factors.b.float()) for site, factors in parent.items()})
    for name in ("dare", "svd_subspace", "extrapolate"):
        narrow, full = (CROSSOVERS[name](p, make.generator(0)) for p in (parents, wide))
        assert all(torch.equal(narrow[s].a, full[s].a.bfloat16()) for s in narrow)
        assert all(torch.equal(narrow[s].b, full[s].b.bfloat16()) for s in narrow)


def test_full_gaussian_and_the_noise_of_layer_gaussian_are_normal_in_each_tensors_own_std() -> None:
    parent = make.adapter(1, n_in=400, n_out=300, rank=8, sites=ONE)
    for name in ("full_gaussian", "layer_gaussian"):
        child = MUTATIONS[name]([parent], make.generator(0))[ONE[0]]
        for before, after in ((parent[ONE[0]].a, child.a), (parent[ONE[0]].b, child.b)):
            noise = (after - before) / before.std(correction=0)
            assert float(noise.mean()) == pytest.approx(0, abs=0.015)
            assert float(noise.std()) == pytest.approx(0.15, rel=0.05)
            assert float((noise / 0.15).pow(4).mean()) == pytest.approx(3, abs=0.5)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e4])
def test_neftune_is_uniform_noise_on_the_reading_side_in_units_of_its_length(scale: float) -> None:
    n_in = 500
    rank = 16
    alpha = 2.0
    before = {s: Factors(scale * f.a, f.b) for s, f in make.adapter(1, n_in=n_in, rank=rank, sites=ONE).items()}
    child = neftune([before], make.generator(0), alpha=alpha)
    a, b = before[ONE[0]].a, before[ONE[0]].b
    assert torch.equal(child[ONE[0]].b, b)
    bound = float(a.norm()) / rank**0.5 * alpha / (rank * n_in) ** 0.5
    noise = child[ONE[0]].a - a
    assert float(noise.abs().max()) == pytest.approx(bound, rel=0.01)
    assert float(noise.abs().max()) <= bound * (1 + 1e-4)
    assert float(noise.mean()) == pytest.approx(0, abs=0.02 * bound)
    # uniform: second and fourth moment
    assert float((noise / bound).square().mean()) == pytest.approx(1 / 3, rel=0.03)
    assert float((noise / bound).pow(4).mean()) == pytest.approx(1 / 5, rel=0.05)
    assert float(noise.norm() / a.norm()) == pytest.approx(alpha / (3 * rank) ** 0.5, rel=0.03)
