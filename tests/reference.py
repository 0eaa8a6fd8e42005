"""The oracle is the transformers model itself: a member's update is merged into its weights or added by autograd."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from redqueen.engine.adapters import Factors
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.lora.sites import RowAdapters
from redqueen.engine.model.attention import SharedPrefix, SharedPrefixAttention
from redqueen.engine.model.base import Base
from redqueen.engine.model.decoder import Decoder, decoder_of
from redqueen.records import Sample

# How far two right ways to compute a tiny model's logits in fp32 may be apart. The logits are at most about ten, and
# each comes from a few hundred roundings whose order depends on the processor, the number of threads and the batch.
LOGIT_ROUNDING = 1024 * torch.finfo(torch.float32).eps


def noisy(bank: AdapterBank, seed: int = 0, rank: int = 0, b: float = 0.2) -> dict[str, Factors]:
    """Returns an adapter for `bank` whose update is not zero, of the bank's rank or of `rank`."""
    generator = torch.Generator().manual_seed(seed)
    rank = rank or bank.rank
    adapter: dict[str, Factors] = {}
    for name, (fan_in, fan_out) in bank.shapes().items():
        factor_a = torch.randn(fan_in, rank, generator=generator) / fan_in**0.5
        factor_b = b * torch.randn(rank, fan_out, generator=generator)
        adapter[name] = Factors(factor_a, factor_b)
    return adapter


def same(one: dict[str, Factors], other: dict[str, Factors]) -> bool:
    """Returns whether two adapters are equal to the bit."""
    return one.keys() == other.keys() and all(
        torch.equal(one[s].a, other[s].a) and torch.equal(one[s].b, other[s].b) for s in one
    )


def scale_of(bank: AdapterBank, member: str) -> float:
    """Returns alpha / rank for this member's own rank."""
    return bank.alpha / next(iter(bank.read(member).values())).a.shape[1]


def doubled(base: Base) -> Base:
    """Returns the base in float64, in which rounding errors are far below the tolerances of the tests."""
    model = copy.deepcopy(base.model).double()
    return replace(base, model=model, decoder=decoder_of(model))


def merged(base: Base, bank: AdapterBank, member: str, dtype: torch.dtype = torch.float64) -> Any:
    """Returns a copy of the transformers model with `member`'s update added to its weights."""
    model: Any = copy.deepcopy(base.model).to(dtype)
    with torch.no_grad():
        for name, factors in bank.read(member).items():
            update = scale_of(bank, member) * factors.a.double() @ factors.b.double()
            model.get_submodule(name).weight += update.T.to(dtype)
    return model


def logits(decoder: Decoder, sequences: Sequence[Sequence[int]], rows: RowAdapters | None = None) -> list[Tensor]:
    """Returns logits [tokens, vocabulary] of each sequence; the decoder computes all sequences in one flat batch."""
    prefixes: list[SharedPrefix] = []
    for sequence in sequences:
        prefixes.append(SharedPrefix(prefixes[-1].end if prefixes else 0, len(sequence)))
    device = decoder.embed_VH.device
    ids = torch.tensor(list(chain.from_iterable(sequences)), device=device)
    position = torch.cat([torch.arange(len(sequence), device=device) for sequence in sequences])
    with torch.no_grad():
        hidden = decoder.hidden(ids, position, SharedPrefixAttention(prefixes, device), rows)
        return list(decoder.head(hidden).split([len(sequence) for sequence in sequences]))


def member_logits(base: Base, bank: AdapterBank, members: Sequence[str], sequences: Any) -> list[Tensor]:
    """Returns logits as `logits` does; sequence i belongs to `members[i]`. The members' slots must ascend."""
    lengths = [len(sequence) for sequence in sequences]
    return logits(base.decoder, sequences, bank.rows([bank.slots[m] for m in members], lengths))


def gradient(
    base: Base, bank: AdapterBank, member: str, items: Sequence[tuple[Sample, float]], temperature: float = 1.0
) -> tuple[float, Tensor]:
    """Returns -sum(weight x log-probability) over all samples' tokens, and its gradient [P].

    It is computed in the plainest way: transformers' model in float64, one sequence for each sample, autograd through
    W + s (A B)ᵀ.
    """
    model: Any = copy.deepcopy(base.model).double()
    scale = scale_of(bank, member)
    leaves = {
        name: Factors(f.a.double().requires_grad_(), f.b.double().requires_grad_())
        for name, f in bank.read(member).items()
    }
    weights = {f"{name}.weight": model.get_submodule(name).weight + scale * (f.a @ f.b).T for name, f in leaves.items()}
    loss = torch.zeros((), dtype=torch.float64)
    for sample, weight in items:
        ids = torch.tensor([sample.prompt_ids + sample.token_ids])
        out = functional_call(model, weights, (ids,)).logits[0, len(sample.prompt_ids) - 1 : -1]
        logp = (out / temperature).log_softmax(-1).gather(1, torch.tensor(sample.token_ids)[:, None])
        loss = loss - weight * logp.sum()
    loss.backward()
    gradients: dict[str, Factors] = {}
    for name, factors in leaves.items():
        assert factors.a.grad is not None
        assert factors.b.grad is not None
        gradients[name] = Factors(factors.a.grad, factors.b.grad)
    return loss.item(), bank.pack(gradients)
