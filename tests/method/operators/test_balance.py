"""A child learns as fast as its parents: one update moves its ΔW as far as theirs, whichever operator made it."""

from __future__ import annotations

import math
from statistics import fmean

import pytest
import torch

from redqueen.config import EngineSettings, LearningConfig, ModelConfig
from redqueen.engine.adapters import Adapter, Factors, fresh, generator, perturb, relative_distance
from redqueen.engine.model.base import load
from redqueen.engine.policy import Policy, open_policy
from redqueen.method.operators import CONTROLS, CROSSOVERS, MUTATIONS
from redqueen.method.operators.lowrank import weighted_sum
from redqueen.records import Sample
from tests import tiny

pytestmark = pytest.mark.integration

ALL = MUTATIONS | CROSSOVERS | CONTROLS
TWO_PARENTS = {*CROSSOVERS, "linear_mean"}
SAMPLES = 24


def texts(seed: int) -> list[Sample]:
    """Random texts of a few prompts, with advantages of both signs."""
    numbers = torch.Generator().manual_seed(seed)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(1, 250, (count,), generator=numbers).tolist())

    prompts = [ids(6) for _ in range(6)]
    return [
        Sample(member="x", prompt_ids=prompts[i % 6], token_ids=ids(8), logprobs=(), advantage=(-1.0) ** i)
        for i in range(SAMPLES)
    ]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    folder = tiny.make(tmp_path_factory.mktemp("balance") / "model", hidden=64)
    model = ModelConfig(name=str(folder), dtype="float32", device="cpu", workers=1, threads=1)
    return open_policy(load(model), EngineSettings(model, learning=LearningConfig(lr=1e-3)), 1)


def trained(policy: Policy, start: Adapter, seed: int, updates: int) -> Adapter:
    """Returns `start` after some updates with a fresh optimizer."""
    policy.join("x", start)
    for number in range(updates):
        policy.update(texts(100 * seed + number))
    end = policy.adapter("x")
    policy.leave("x")
    return end


def norm(adapter: Adapter) -> float:
    return math.sqrt(sum(float((f.a.double() @ f.b.double()).square().sum()) for f in adapter.values()))


def effective_step(policy: Policy, adapter: Adapter) -> float:
    """Returns how far ΔW moves in one update on fixed samples with a fresh optimizer."""
    moved = trained(policy, adapter, 7, 1)
    return relative_distance(adapter, moved) * max(norm(adapter), norm(moved))


@pytest.fixture(scope="module")
def parents(policy: Policy) -> list[Adapter]:
    """Two members as they are in a run: from one start, each trained on its own texts."""
    start = trained(policy, fresh(policy.shapes(), 8, generator(0, "start")), 0, 60)
    return [trained(policy, perturb(start, 0.05, generator(0, "noise", i)), i, 20) for i in (1, 2)]


# fresh inherits nothing, so it has PEFT's lengths and not its parents'.
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ALL if name != "fresh"])
def test_a_childs_first_update_is_as_long_as_its_parents(name: str, policy: Policy, parents: list[Adapter]) -> None:
    own = parents if name in TWO_PARENTS else parents[:1]
    wanted = fmean(effective_step(policy, parent) for parent in own)
    ratios = [effective_step(policy, ALL[name](own, generator(0, name, n))) / wanted for n in range(3)]
    assert fmean(ratios) == pytest.approx(1.0, abs=0.05), ratios


def test_a_balanced_split_would_learn_more_slowly(policy: Policy, parents: list[Adapter]) -> None:
    # The same update with the singular values shared out equally: what children were before.
    balanced: dict[str, Factors] = {}
    for site, f in parents[0].items():
        u, s, vt = torch.linalg.svd(f.a @ f.b, full_matrices=False)
        root = s[:8].sqrt()
        balanced[site] = Factors(u[:, :8] * root, root[:, None] * vt[:8])
    assert relative_distance(parents[0], balanced) < 1e-3
    assert effective_step(policy, balanced) < 0.9 * effective_step(policy, parents[0])


def test_a_child_too_large_for_its_parents_split_gets_the_shortest_factors(parents: list[Adapter]) -> None:
    parent = next(iter(parents[0].values()))
    rank = parent.a.shape[1]
    for times, shared in ((1.5, False), (100.0, True)):
        made = weighted_sum([parent], [times])
        child = Factors(made.a.float(), made.b.float())
        assert torch.allclose(child.a @ child.b, times * parent.a @ parent.b, rtol=1e-4, atol=1e-6)
        # √σ on both sides: the columns of a and the rows of b are orthogonal, and as long as each other.
        gram_a, gram_b = child.a.T @ child.a, child.b @ child.b.T
        equal = torch.allclose(gram_a, gram_b, rtol=1e-3, atol=1e-4 * float(gram_a.trace()) / rank)
        assert equal == shared, times
