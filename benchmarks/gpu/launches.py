"""What a decode step and a micro-batch launch on a GPU, counted on meta tensors at the shape of a 7B model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from benchmarks.gpu.counting import H200, Cost, KernelCounter, counting
from benchmarks.gpu.shapes import SEVEN_B, Shape, random_decoder, random_members
from redqueen.engine.learning.gradients import ForwardOptions, accumulate
from redqueen.engine.learning.packing import PromptGroup, build_micro_batch
from redqueen.engine.model.attention import SharedPrefixAttention
from redqueen.engine.model.forward import TokenLogprobs
from redqueen.engine.sampling.decode_step import decode_step
from redqueen.engine.sampling.kv_cache import KVCache, Pages, batch_pages
from redqueen.engine.sampling.tokens import SamplingTensors, sample_tokens
from redqueen.records import SamplingParams

META = torch.device("meta")
# The members of one phase: teachers and students sample in different ones.
SAMPLING_MEMBERS = 4
MEMBERS = 8
# The bytes of a token's keys and values.
_KV_BYTES = 2 * SEVEN_B.layers * SEVEN_B.kv_heads * (SEVEN_B.hidden // SEVEN_B.heads) * 2
# Layers are alike, so two numbers of layers tell what one costs and what comes once a pass.
_LAYERS = (2, 4)


@dataclass(frozen=True, slots=True)
class PassCost:
    """The cost of a pass over a base's layers."""

    layer: Cost
    """One layer."""
    once: Cost
    """What a pass does once, whatever the number of layers."""
    kept: float = 0.0
    """Bytes of a layer that the forward pass keeps for the backward pass."""

    def of(self, layers: int) -> Cost:
        """Returns the cost of a pass over that many layers."""
        return self.once + Cost(
            layers * self.layer.launches,
            layers * self.layer.bytes,
            layers * self.layer.flops,
            layers * self.layer.seconds,
        )


def decode_step_cost(shape: Shape, rows: int, tokens: int, *, paged: bool = False) -> PassCost:
    """Returns the cost of a decode step of rows with `tokens` tokens each, without the head.

    With pages, whole pages are counted as read, and a GPU reads only the tokens that are there.
    """
    return _per_layer([_decode_step(shape.with_layers(layers), rows, tokens, paged) for layers in _LAYERS])


def decode_line() -> tuple[float, float, float]:
    """Returns the least seconds of a 7B model's step on an H200, and the line through those of 128 and 512 rows.

    Attention over earlier tokens is left out of both.
    """
    seconds: list[float] = []
    for rows in (8, 128, 512):
        cost = decode_step_cost(SEVEN_B, rows, 1024).of(SEVEN_B.layers) + sampling_cost(SEVEN_B, rows)
        seconds.append(cost.seconds - rows * 1024 * _KV_BYTES / H200.bandwidth)
    slope = (seconds[2] - seconds[1]) / (512 - 128)
    return seconds[0], seconds[1] - 128 * slope, slope


def decode_seconds(least: float, start: float, slope: float, efficiency: float, rows: int, tokens: int) -> float:
    """Returns the seconds of a decode step of rows with so many tokens together, on the line of `decode_line`.

    Every kernel reaches this share of its limit.
    """
    return (max(least, start + slope * rows) + tokens * _KV_BYTES / H200.bandwidth) / efficiency


def sampling_cost(shape: Shape, rows: int) -> Cost:
    """Returns the cost of the head and of sampling one token of each row."""
    decoder = random_decoder(shape.with_layers(1), META)
    plain = SamplingTensors.of([SamplingParams(max_tokens=1)] * rows)
    params = replace(plain, values_4R=plain.values_4R.to(META))
    work_RV = torch.empty(rows, shape.vocabulary, device=META)
    hidden_RH = torch.empty(rows, shape.hidden, device=META, dtype=torch.bfloat16)
    with torch.inference_mode(), counting() as counter:
        sample_tokens(decoder.head(hidden_RH), torch.empty(rows, device=META), params, work_RV)
    return counter.total


def micro_batch_cost(shape: Shape, groups: Sequence[PromptGroup], *, checkpointing: bool) -> PassCost:
    """Returns the cost of a forward and backward pass over these groups, without their log-probabilities."""
    counts: list[KernelCounter] = []
    kept: list[int] = []
    for layers in _LAYERS:
        counter, bytes_kept = _micro_batch(shape.with_layers(layers), groups, checkpointing)
        counts.append(counter)
        kept.append(bytes_kept)
    cost = _per_layer(counts)
    return PassCost(cost.layer, cost.once, (kept[1] - kept[0]) / (_LAYERS[1] - _LAYERS[0]))


def micro_batch_peak(shape: Shape, groups: Sequence[PromptGroup], *, checkpointing: bool) -> int:
    """Returns the most bytes that a micro-batch takes at once, besides the base, the members and their gradients."""
    decoder = random_decoder(shape, META)
    bank = random_members(decoder, shape, MEMBERS)
    gradients = bank.gradients()
    with counting() as counter:
        accumulate(decoder, bank, gradients, groups, ForwardOptions(1.0, checkpointing))
    return counter.peak


def logprobs_cost(shape: Shape, tokens: int) -> Cost:
    """Returns the cost of the log-probabilities of that many tokens, and of their gradient."""
    decoder = random_decoder(shape.with_layers(1), META)
    hidden_NH = torch.empty(tokens, shape.hidden, device=META, dtype=torch.bfloat16, requires_grad=True)
    target_N = torch.empty(tokens, device=META, dtype=torch.long)
    with torch.enable_grad(), counting() as counter:
        TokenLogprobs.apply(hidden_NH, decoder.head.weight, target_N, 1.0).sum().backward()
    return counter.total


def _decode_step(shape: Shape, rows: int, tokens: int, paged: bool) -> KernelCounter:
    decoder = random_decoder(shape, META)
    bank = random_members(decoder, shape, SAMPLING_MEMBERS)
    cache = KVCache(decoder, rows, tokens + 1, Pages(batch_pages(rows, tokens + 1), rows) if paged else None)
    with torch.inference_mode():
        step = decode_step(decoder, bank, cache)
        # In a run, the rows of a batch that has been refilled are in no order.
        step.assign_rows([row % SAMPLING_MEMBERS for row in range(rows)])
        token_R = torch.empty(rows, dtype=torch.long, device=META)
        with counting() as counter:
            step(token_R)
    return counter


def _micro_batch(shape: Shape, groups: Sequence[PromptGroup], checkpointing: bool) -> tuple[KernelCounter, int]:
    """Returns the kernels of a pass, and the bytes that its forward pass keeps."""
    decoder = random_decoder(shape, META)
    bank = random_members(decoder, shape, MEMBERS)
    batch = build_micro_batch(groups, META)
    adapters = bank.rows([g.slot for g in groups], [g.tokens for g in groups], bank.gradients())
    attention = SharedPrefixAttention(batch.prefixes, META)
    with torch.enable_grad(), counting() as counter:
        hidden_NH = decoder.hidden(batch.ids_N, batch.position_N, attention, adapters, checkpointing=checkpointing)
        kept = counter.live
        hidden_NH.backward(torch.empty_like(hidden_NH))
    return counter, kept


def _per_layer(counts: Sequence[KernelCounter]) -> PassCost:
    """Returns the cost of a layer and the rest, from passes over `_LAYERS` layers."""
    few, many = (counter.total for counter in counts)
    more = _LAYERS[1] - _LAYERS[0]
    layer = Cost(
        (many.launches - few.launches) // more,
        (many.bytes - few.bytes) // more,
        (many.flops - few.flops) // more,
        (many.seconds - few.seconds) / more,
    )
    once = Cost(
        few.launches - _LAYERS[0] * layer.launches,
        few.bytes - _LAYERS[0] * layer.bytes,
        few.flops - _LAYERS[0] * layer.flops,
        few.seconds - _LAYERS[0] * layer.seconds,
    )
    return PassCost(layer, once)
