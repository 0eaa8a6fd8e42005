"""From samples to flat micro-batches: no padding, and a prompt once for all samples that continue it.

Shape suffixes: N rows (tokens that go through the model), S scored tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from redqueen.policy.model.attention import SharedPrefix
from redqueen.records import Sample


@dataclass(frozen=True, slots=True)
class Weighted:
    """A sample with the weight of each of its tokens in the loss, its advantage included."""

    sample: Sample
    slot: int
    weight: float


@dataclass(frozen=True, slots=True)
class Pack:
    """Samples of one member that continue one prompt. The last token of a sample predicts nothing: no row."""

    slot: int
    prompt_ids: tuple[int, ...]
    items: tuple[Weighted, ...]

    @property
    def tails(self) -> tuple[int, ...]:
        return tuple(len(item.sample.token_ids) - 1 for item in self.items)

    @property
    def tokens(self) -> int:
        return len(self.prompt_ids) + sum(self.tails)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What one forward pass needs. Row `source_S[i]` predicts token `target_S[i]`."""

    packs: tuple[Pack, ...]
    prefixes: tuple[SharedPrefix, ...]
    ids_N: Tensor
    position_N: Tensor
    source_S: Tensor
    target_S: Tensor
    logprob_S: Tensor
    weight_S: Tensor


def micro_batches(items: Sequence[Weighted], budget: int) -> Iterator[list[Pack]]:
    """Every item once, as packs of at most `budget` rows together, sorted by slot; a single sample may exceed it."""
    return batched(split(items, budget), budget)


def batched(packs: Iterable[Pack], budget: int) -> Iterator[list[Pack]]:
    """Neighbouring packs together, as far as the budget goes."""
    batch: list[Pack] = []
    room = budget
    for pack in packs:
        if batch and pack.tokens > room:
            yield sorted(batch, key=lambda p: p.slot)
            batch, room = [], budget
        batch.append(pack)
        room -= pack.tokens
    if batch:
        yield sorted(batch, key=lambda p: p.slot)


def split(items: Sequence[Weighted], budget: int) -> Iterator[Pack]:
    """Samples by member and prompt; what is above the budget computes its prompt more than once."""
    groups: dict[tuple[int, tuple[int, ...]], list[Weighted]] = {}
    for item in items:
        groups.setdefault((item.slot, item.sample.prompt_ids), []).append(item)
    for (slot, prompt_ids), members in groups.items():
        part: list[Weighted] = []
        rows = len(prompt_ids)
        for item in members:
            tail = len(item.sample.token_ids) - 1
            if part and rows + tail > budget:
                yield Pack(slot, prompt_ids, tuple(part))
                part, rows = [], len(prompt_ids)
            part.append(item)
            rows += tail
        yield Pack(slot, prompt_ids, tuple(part))


def assemble(packs: Sequence[Pack], device: torch.device) -> MicroBatch:
    """The tensors of one micro-batch."""
    ids: list[int] = []
    positions: list[int] = []
    sources: list[int] = []
    prefixes: list[SharedPrefix] = []
    for pack in packs:
        start, prompt = len(ids), len(pack.prompt_ids)
        prefixes.append(SharedPrefix(start, prompt, pack.tails))
        ids += pack.prompt_ids
        positions += range(prompt)
        for item, tail in zip(pack.items, pack.tails, strict=True):
            sources += [start + prompt - 1, *range(len(ids), len(ids) + tail)]
            ids += item.sample.token_ids[:-1]
            positions += range(prompt, prompt + tail)
    samples = [(item.sample, item.weight) for pack in packs for item in pack.items]

    def tensor(values: list[int] | list[float], dtype: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    return MicroBatch(
        tuple(packs),
        tuple(prefixes),
        tensor(ids, torch.long),
        tensor(positions, torch.long),
        tensor(sources, torch.long),
        tensor([t for s, _ in samples for t in s.token_ids], torch.long),
        tensor([x for s, _ in samples for x in s.logprobs], torch.float32),
        tensor([w for s, w in samples for _ in s.token_ids], torch.float32),
    )
