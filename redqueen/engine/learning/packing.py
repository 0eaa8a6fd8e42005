"""Builds flat micro-batches from samples. They have no padding, and samples of one prompt share its rows.

Shape suffixes: N rows (tokens that go through the model), S scored tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from redqueen.engine.model.attention import SharedPrefix
from redqueen.engine.tensor_memory import to_device
from redqueen.records import Sample


@dataclass(frozen=True, slots=True)
class WeightedSample:
    """A sample, its member's slot and the weight of its tokens."""

    sample: Sample
    slot: int
    weight: float
    """The weight of each of the sample's tokens in the loss, multiplied by the sample's advantage."""


@dataclass(frozen=True, slots=True)
class PromptGroup:
    """Samples of one member that continue one prompt."""

    slot: int
    """The member's slot in the adapter bank."""
    prompt_ids: tuple[int, ...]
    samples: tuple[WeightedSample, ...]

    @property
    def suffix_lengths(self) -> tuple[int, ...]:
        """How many rows each sample has after the prompt. A sample's last token predicts nothing, so it has no row."""
        return tuple(len(weighted.sample.token_ids) - 1 for weighted in self.samples)

    @property
    def tokens(self) -> int:
        """How many rows the whole group has."""
        return len(self.prompt_ids) + sum(self.suffix_lengths)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """The input of one forward and backward pass."""

    prefixes: tuple[SharedPrefix, ...]
    """Where each group's prompt and samples are."""
    ids_N: Tensor
    position_N: Tensor
    """The position of each row in its own sequence."""
    source_S: Tensor
    """The row that predicts each scored token."""
    target_S: Tensor
    logprob_S: Tensor
    """The sampler's log-probabilities of the targets; NaN where no member sampled them."""
    weight_S: Tensor
    """The targets' weights in the loss."""
    advantage_S: Tensor
    """The advantages of their texts, which are in the weights too."""


def micro_batches(samples: Sequence[WeightedSample], budget: int) -> Iterator[list[PromptGroup]]:
    """Yields micro-batches of at most `budget` rows that hold every sample once, their groups sorted by slot.

    A sample that alone is longer than the budget gets a micro-batch of its own.
    """
    return fill_micro_batches(group_by_prompt(samples, budget), budget)


def fill_micro_batches(groups: Iterable[PromptGroup], budget: int) -> Iterator[list[PromptGroup]]:
    """Yields micro-batches of consecutive groups with at most `budget` rows together, each sorted by slot."""
    batch: list[PromptGroup] = []
    room = budget
    for group in groups:
        if batch and group.tokens > room:
            yield sorted(batch, key=lambda g: g.slot)
            batch = []
            room = budget
        batch.append(group)
        room -= group.tokens
    if batch:
        yield sorted(batch, key=lambda g: g.slot)


def group_by_prompt(samples: Sequence[WeightedSample], budget: int) -> Iterator[PromptGroup]:
    """Yields groups of at most `budget` rows. A prompt whose samples need more rows is repeated in several groups."""
    by_prompt: dict[tuple[int, tuple[int, ...]], list[WeightedSample]] = {}
    for weighted in samples:
        by_prompt.setdefault((weighted.slot, weighted.sample.prompt_ids), []).append(weighted)
    for (slot, prompt_ids), members in by_prompt.items():
        group: list[WeightedSample] = []
        rows = len(prompt_ids)
        for weighted in members:
            suffix = len(weighted.sample.token_ids) - 1
            if group and rows + suffix > budget:
                yield PromptGroup(slot, prompt_ids, tuple(group))
                group = []
                rows = len(prompt_ids)
            group.append(weighted)
            rows += suffix
        yield PromptGroup(slot, prompt_ids, tuple(group))


def padded_parts(groups: Sequence[PromptGroup]) -> list[list[PromptGroup]]:
    """Returns the samples of `groups` one by one, in parts that are sorted by slot and hold similar lengths.

    A part, padded to its longest sample, has at most as many rows as `groups` have, or it holds one sample.
    """
    budget = sum(group.tokens for group in groups)
    singles: list[PromptGroup] = []
    for group in groups:
        singles += [PromptGroup(group.slot, group.prompt_ids, (sample,)) for sample in group.samples]
    parts: list[list[PromptGroup]] = []
    for single in sorted(singles, key=lambda group: -group.tokens):
        # The first of a part is its longest.
        if not parts or (len(parts[-1]) + 1) * parts[-1][0].tokens > budget:
            parts.append([])
        parts[-1].append(single)
    return [sorted(part, key=lambda single: single.slot) for part in parts]


def build_micro_batch(groups: Sequence[PromptGroup], device: torch.device) -> MicroBatch:
    """Returns the tensors of one micro-batch."""
    ids: list[int] = []
    positions: list[int] = []
    sources: list[int] = []
    targets: list[int] = []
    logprobs: list[float] = []
    weights: list[float] = []
    advantages: list[float] = []
    prefixes: list[SharedPrefix] = []
    for group in groups:
        start = len(ids)
        prompt = len(group.prompt_ids)
        prefixes.append(SharedPrefix(start, prompt, group.suffix_lengths))
        ids += group.prompt_ids
        positions += range(prompt)
        for weighted, suffix in zip(group.samples, group.suffix_lengths, strict=True):
            # The prompt's last row predicts each sample's first token, the sample's own rows predict the others.
            sources += [start + prompt - 1, *range(len(ids), len(ids) + suffix)]
            ids += weighted.sample.token_ids[:-1]
            positions += range(prompt, prompt + suffix)
            # Every token of the completion is scored, the first as well as the last.
            targets += weighted.sample.token_ids
            logprobs += weighted.sample.logprobs or (math.nan,) * len(weighted.sample.token_ids)
            weights += [weighted.weight] * len(weighted.sample.token_ids)
            advantages += [weighted.sample.advantage] * len(weighted.sample.token_ids)

    def tensor(values: list[int] | list[float], dtype: torch.dtype) -> Tensor:
        return to_device(torch.tensor(values, dtype=dtype), device)

    return MicroBatch(
        prefixes=tuple(prefixes),
        ids_N=tensor(ids, torch.long),
        position_N=tensor(positions, torch.long),
        source_S=tensor(sources, torch.long),
        target_S=tensor(targets, torch.long),
        logprob_S=tensor(logprobs, torch.float32),
        weight_S=tensor(weights, torch.float32),
        advantage_S=tensor(advantages, torch.float32),
    )
