"""From samples to flat micro-batches: without padding, and with a prompt only once for all samples that continue it.

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
class WeightedSample:
    """A sample and its place in the loss."""

    sample: Sample
    """What a member wrote."""
    slot: int
    """The member's slot in the adapter bank."""
    weight: float
    """The weight of each of its tokens in the loss, its advantage included."""


@dataclass(frozen=True, slots=True)
class PromptGroup:
    """Samples of one member that continue one prompt."""

    slot: int
    """The member's slot in the adapter bank."""
    prompt_ids: tuple[int, ...]
    """The tokens that all samples begin with."""
    samples: tuple[WeightedSample, ...]
    """What continues them."""

    @property
    def suffix_lengths(self) -> tuple[int, ...]:
        """The rows of each sample after the prompt. Its last token predicts nothing, so it has no row."""
        return tuple(len(weighted.sample.token_ids) - 1 for weighted in self.samples)

    @property
    def tokens(self) -> int:
        """The rows of the whole group."""
        return len(self.prompt_ids) + sum(self.suffix_lengths)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What one forward and backward pass reads. Row `source_S[i]` predicts token `target_S[i]`."""

    groups: tuple[PromptGroup, ...]
    prefixes: tuple[SharedPrefix, ...]
    ids_N: Tensor
    position_N: Tensor
    source_S: Tensor
    target_S: Tensor
    logprob_S: Tensor
    """The sampler's log-probabilities of the targets."""
    weight_S: Tensor
    """The targets' weights in the loss."""


def micro_batches(samples: Sequence[WeightedSample], budget: int) -> Iterator[list[PromptGroup]]:
    """Yields every sample once, in groups of at most `budget` rows together, sorted by slot.

    A single sample may be longer than the budget.
    """
    return fill_micro_batches(group_by_prompt(samples, budget), budget)


def fill_micro_batches(groups: Iterable[PromptGroup], budget: int) -> Iterator[list[PromptGroup]]:
    """Yields neighbouring groups together, as far as the budget reaches, sorted by slot."""
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
    """Yields groups of at most `budget` rows; where a prompt's samples need more, its prompt is in several groups."""
    by_prompt: dict[tuple[int, tuple[int, ...]], list[WeightedSample]] = {}
    for weighted in samples:
        by_prompt.setdefault((weighted.slot, weighted.sample.prompt_ids), []).append(weighted)
    for (slot, prompt_ids), members in by_prompt.items():
        part: list[WeightedSample] = []
        rows = len(prompt_ids)
        for weighted in members:
            suffix = len(weighted.sample.token_ids) - 1
            if part and rows + suffix > budget:
                yield PromptGroup(slot, prompt_ids, tuple(part))
                part = []
                rows = len(prompt_ids)
            part.append(weighted)
            rows += suffix
        yield PromptGroup(slot, prompt_ids, tuple(part))


def build_micro_batch(groups: Sequence[PromptGroup], device: torch.device) -> MicroBatch:
    """Returns the tensors of one micro-batch."""
    ids: list[int] = []
    positions: list[int] = []
    sources: list[int] = []
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
    samples = [weighted for group in groups for weighted in group.samples]

    def tensor(values: list[int] | list[float], dtype: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    return MicroBatch(
        groups=tuple(groups),
        prefixes=tuple(prefixes),
        ids_N=tensor(ids, torch.long),
        position_N=tensor(positions, torch.long),
        source_S=tensor(sources, torch.long),
        target_S=tensor([token for w in samples for token in w.sample.token_ids], torch.long),
        logprob_S=tensor([logprob for w in samples for logprob in w.sample.logprobs], torch.float32),
        weight_S=tensor([w.weight for w in samples for _ in w.sample.token_ids], torch.float32),
    )
