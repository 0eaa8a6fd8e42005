"""PEFT's own merges that work on ΔW (`*_svd`) as a second oracle, where they coincide with an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from redqueen.engine.adapters import Adapter, Factors
from redqueen.method.operators import CONTROLS, CROSSOVERS
from redqueen.method.operators.crossovers import dare, extrapolate
from redqueen.method.operators.lowrank import EPSILON
from tests.method.operators import make

SITES = ("q_proj", "up_proj")


class Merge:
    """A PEFT model of two linear layers that holds our parents under the names "0" and "1"."""

    def __init__(self, parents: Sequence[Adapter], n_in: int, n_out: int, rank: int) -> None:
        base: Any = nn.Module()
        for site in SITES:
            base.add_module(site, nn.Linear(n_in, n_out, bias=False))
        # alpha = rank: a scaling of 1, as the operators leave the scaling out
        config = LoraConfig(r=rank, lora_alpha=rank, target_modules=list(SITES))
        self.model: Any = get_peft_model(base, config, adapter_name="0")
        self.model.add_adapter("1", config)
        with torch.no_grad():
            for name, parent in zip("01", parents, strict=True):
                for site, f in parent.items():
                    layer = self.layer(site)
                    layer.lora_A[name].weight.copy_(f.a.T)
                    layer.lora_B[name].weight.copy_(f.b.T)

    def layer(self, site: str) -> Any:
        return self.model.base_model.model.get_submodule(site)

    def merged(self, weights: Sequence[float], kind: str, **options: float) -> dict[str, torch.Tensor]:
        """ΔWᵀ by site of PEFT's merge."""
        self.model.base_model.add_weighted_adapter(["0", "1"], list(weights), "m", combination_type=kind, **options)
        updates = {site: self.layer(site).get_delta_weight("m").T.double() for site in SITES}
        self.model.delete_adapter("m")
        return updates


def parents_of(form: dict[str, int]) -> list[dict[str, Factors]]:
    return [make.adapter(seed, sites=SITES, **form) for seed in (1, 2)]


def assert_is_pefts(
    child: Adapter, wanted: dict[str, torch.Tensor], parents: Sequence[Adapter], weights: Sequence[float]
) -> None:
    """The child is PEFT's merge, as far as both round.

    PEFT multiplies, adds and decomposes in fp32. Such a decomposition is that of a matrix which differs by at most
    about n · eps · size, n being the longer side, and what is left at the parents' rank differs by that times the gain.
    """
    for site, f in child.items():
        terms = [parent[site] for parent in parents]
        mix = sum((w * make.dense(term) for w, term in zip(weights, terms, strict=True)), torch.zeros(()))
        gain = make.truncation_gain(mix, f.a.shape[1])
        theirs = max(mix.shape) * EPSILON * make.size(terms, weights) * gain
        make.assert_close(make.dense(f), wanted[site], make.rounding(terms, weights) + theirs)


FORMS = [{"n_in": 12, "n_out": 9, "rank": 4}, {"n_in": 7, "n_out": 20, "rank": 1}, {"n_in": 30, "n_out": 25, "rank": 8}]


@pytest.mark.parametrize("form", FORMS)
def test_linear_mean_is_pefts_svd_merge(form: dict[str, int]) -> None:
    parents = parents_of(form)
    wanted = Merge(parents, **form).merged([0.5, 0.5], "svd")
    assert_is_pefts(CONTROLS["linear_mean"](parents, make.generator(0)), wanted, parents, [0.5, 0.5])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("eta", [1.0, 1.25, 1.5])
def test_extrapolate_is_pefts_svd_merge_with_a_negative_weight(form: dict[str, int], eta: float) -> None:
    parents = parents_of(form)
    wanted = Merge(parents, **form).merged([eta, 1 - eta], "svd")
    child = extrapolate(parents, make.generator(0), low=eta, high=eta)
    assert_is_pefts(child, wanted, parents, [eta, 1 - eta])


@pytest.mark.parametrize("form", FORMS)
def test_dare_without_dropping_is_pefts_dare_linear_svd_at_full_density(form: dict[str, int]) -> None:
    parents = parents_of(form)
    wanted = Merge(parents, **form).merged([0.5, 0.5], "dare_linear_svd", density=1.0)
    assert_is_pefts(dare(parents, make.generator(0), dropped=0.0), wanted, parents, [0.5, 0.5])


@pytest.mark.parametrize("draws", [150, pytest.param(600, marks=pytest.mark.slow)])
def test_dare_has_the_mean_and_the_spread_of_pefts_dare_linear_svd(draws: int) -> None:
    # rank is the layer's width, so neither cuts anything off
    form = {"n_in": 4, "n_out": 3, "rank": 3}
    parents = parents_of(form)
    merge = Merge(parents, **form)
    torch.manual_seed(0)
    theirs = torch.stack([merge.merged([0.5, 0.5], "dare_linear_svd", density=0.3)[SITES[0]] for _ in range(draws)])
    ours = torch.stack(
        [make.dense(CROSSOVERS["dare"](parents, make.generator(seed))[SITES[0]]) for seed in range(draws)]
    )
    error = ((theirs.var(dim=0) + ours.var(dim=0)) / draws).sqrt()
    assert ((theirs.mean(dim=0) - ours.mean(dim=0)).abs() < 4.5 * error).all()
    total = [float((x - x.mean(dim=0)).square().sum(dim=(1, 2)).mean()) for x in (theirs, ours)]
    assert total[1] == pytest.approx(total[0], rel=3.7 / draws**0.5)


def test_pefts_merge_of_a_and_b_apart_is_another_matrix() -> None:
    form = FORMS[0]
    parents = parents_of(form)
    apart = Merge(parents, **form).merged([0.5, 0.5], "linear")
    child = CONTROLS["linear_mean"](parents, make.generator(0))
    mean = {site: (make.dense(parents[0][site]) + make.dense(parents[1][site])) / 2 for site in SITES}
    for site in SITES:
        assert float((make.dense(child[site]) - mean[site]).norm()) < float((apart[site] - mean[site]).norm())


def test_the_oracles_scaling_is_one() -> None:
    parents = parents_of(FORMS[0])
    merge = Merge(parents, **FORMS[0])
    for site, f in parents[0].items():
        theirs = merge.layer(site).get_delta_weight("0").detach().T.double()
        make.assert_close(theirs, make.dense(f), f.a.shape[1] * EPSILON * make.size([f]))
