"""What a run needs of memory, before it starts.

An estimate: sizes follow from the code (what is saved for the backward pass, how the cache grows), texts are as long as
the seed programs make them, and four constants are measured (`_LIBRARIES`, `_WORKER_LIBRARIES`, `_LOADED`, `_KEPT`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psutil
import torch

from redqueen.config import Config
from redqueen.errors import ModelError
from redqueen.policy.model.base import device_of, dtype_of, workers_of
from redqueen.policy.model.dimensions import Shape, shape_of
from redqueen.policy.model.logprobs import CHUNK
from redqueen.policy.sampling.kv_cache import GROWTH
from redqueen.records import PromptLengths

_MB = 10**6
# resident after the imports, with transformers and without it (torch 2.13, Linux)
_LIBRARIES = 375 * _MB
_WORKER_LIBRARIES = 220 * _MB
# the tokenizer and what loading leaves behind
_LOADED = 40 * _MB
# a heap of many sizes has holes: as a share of what is taken and given back in a step
_KEPT = 0.15


@dataclass(frozen=True, slots=True)
class Item:
    """`size` bytes in each of `processes`; `knob` is the setting that shrinks it ("": none)."""

    name: str
    size: int
    processes: int = 1
    knob: str = ""

    @property
    def total(self) -> int:
        return self.size * self.processes


def estimate(config: Config, lengths: PromptLengths, members: int, *, download: bool) -> list[Item]:
    """The items of a run with `members` adapters and prompts of these lengths.

    Raises ModelError if the base cannot be found.
    """
    return items(config, shape_of(config.model, download=download), lengths, members)


def items(config: Config, shape: Shape, lengths: PromptLengths, members: int) -> list[Item]:
    """The items at the peak. On a CPU all are there at once: what training frees stays in the process's heap, where
    the cache is not. On a GPU training and sampling reuse the same blocks.
    """
    training, sampling = training_items(config, shape, lengths), _sampling(config, shape, lengths)
    held, gradients = held_items(config, shape, members), gradients_item(config, shape, members)
    if device_of(config.model).type == "cuda":
        return [*held, *max([gradients, *training], sampling, key=total)]
    return [*held, gradients, *training, *sampling, holes([*training, *sampling])]


def held_items(config: Config, shape: Shape, members: int) -> list[Item]:
    """What is there all the time: libraries, base, members."""
    return [*_base(config, shape, workers_of(config.model)), *_members(config, shape, members)]


def gradients_item(config: Config, shape: Shape, members: int) -> Item:
    """The members' gradients, on a GPU there while a run trains only; a worker keeps its own."""
    workers, size = workers_of(config.model), 4 * members * shape.factors * config.model.rank
    return Item("members: gradients", size, 1 if workers == 1 else workers + 1, _members_knob(members))


def holes(passing: Sequence[Item]) -> Item:
    """What a CPU's heap takes beyond the items that come and go."""
    largest = max(passing, key=lambda item: item.total)
    return Item("holes in the heap", int(_KEPT * sum(item.size for item in passing)), largest.processes, largest.knob)


def _base(config: Config, shape: Shape, workers: int) -> list[Item]:
    device = device_of(config.model)
    dtype = dtype_of(config.model, device)
    weights = Item("base weights", shape.weights * dtype.itemsize)
    if device.type == "cuda":
        return [weights]
    found = [Item("interpreter and libraries", _LIBRARIES + _LOADED), weights]
    if workers > 1:
        found.append(Item("libraries in a worker", _WORKER_LIBRARIES + _LOADED, workers, "model.workers"))
    elif dtype == shape.dtype:
        # the file stays mapped, for some weights are used where they lie in it
        found.append(Item("base weights, stacked", shape.stacked * dtype.itemsize))
    if dtype == torch.bfloat16:
        knob = "model.workers" if workers > 1 else ""
        found.append(Item("base weights, packed", shape.linear * dtype.itemsize, workers, knob))
    return found


def _members(config: Config, shape: Shape, members: int) -> list[Item]:
    one, knob = members * shape.factors * config.model.rank, _members_knob(members)
    size = dtype_of(config.model, device_of(config.model)).itemsize
    return [
        Item("members: weights in fp32 and copies", one * (4 + size), 1, knob),
        Item("members: AdamW moments", one * 8, 1, knob),
    ]


def _members_knob(members: int) -> str:
    return "model.rank" if members <= 16 else "the population"


def training_items(config: Config, shape: Shape, lengths: PromptLengths) -> list[Item]:
    """What a micro-batch saves for its backward pass, and the logits of one chunk."""
    device, workers = device_of(config.model), workers_of(config.model)
    size, sampling = dtype_of(config.model, device).itemsize, config.sampling
    longest = max(lengths.proposal + sampling.proposal_tokens, lengths.attempt + sampling.attempt_tokens)
    tokens = max(config.learning.batch_tokens, longest)
    qkv = (shape.heads + 2 * shape.kv_heads) * shape.head_size
    # residuals and norms, the products' inputs, q, k and v as attention reads them, gate and up
    saved = 4 * shape.hidden + shape.heads * shape.head_size + qkv + 3 * shape.intermediate
    saved += shape.inner * config.model.rank
    if shape.head_norms or device.type == "cuda":
        saved += qkv  # as the product wrote them
    # a row's scores over the sequence that it is in; fused kernels never write them
    scores = 0 if device.type == "cuda" else shape.heads * longest
    block = tokens * (saved + scores) * size
    kept = shape.layers * block
    if config.learning.checkpointing:
        kept = shape.layers * tokens * shape.hidden * size + 2 * block
    # torch's operations want logits and shares in fp32 too
    logits = CHUNK * shape.vocabulary * (size + (2 * 4 if device.type == "cuda" else 0))
    knob = "learning.batch_tokens" if config.learning.checkpointing else "learning.checkpointing=true"
    return [
        Item(f"training: activations of {tokens} tokens", kept, workers, knob),
        Item("training: logits", logits, workers),
    ]


def _sampling(config: Config, shape: Shape, lengths: PromptLengths) -> list[Item]:
    """The larger of the two phases: cache while it grows, the logits of a step, the prompts of a fill."""
    population, game, sampling, workers = config.population, config.game, config.sampling, workers_of(config.model)
    matches = game.matches or max(population.teachers, population.students)
    proposals = -(-matches * len(game.kinds) * game.proposals // workers)
    size = dtype_of(config.model, device_of(config.model)).itemsize
    row_token = 2 * shape.layers * shape.kv_heads * shape.head_size * size
    phases: list[list[Item]] = []
    for asked, prompt, limit, shared in (
        (proposals, lengths.proposal, sampling.proposal_tokens, 1),
        (proposals * game.attempts, lengths.attempt, sampling.attempt_tokens, game.attempts),
    ):
        rows = min(sampling.batch_rows, asked)
        room = prompt + limit + 1
        room += -room % GROWTH
        # keys are padded while the old keys and values are there
        grown = int(rows * room * row_token * (1.5 - GROWTH / room / 2))
        wide = rows * shape.vocabulary * (size + 4 + _cut(config))
        fill = rows // min(shared, rows) * prompt * size * (5 * shape.intermediate + 8 * shape.hidden)
        phases.append(
            [
                Item(f"sampling: cache of {rows} x {room} tokens", grown, workers, "sampling.batch_rows"),
                Item("sampling: logits and prompts", max(wide, fill), workers, "sampling.batch_rows"),
            ]
        )
    return max(phases, key=total)


def _cut(config: Config) -> int:
    """Bytes a logit for top-p and top-k: sorted values, their order, masks, probabilities."""
    return 4 + 8 + 3 + 4 * 4 if config.sampling.top_k or config.sampling.top_p < 1 else 0


def check_fit(config: Config, lengths: PromptLengths, members: int) -> None:
    """Raises ModelError if a run needs more than the device has free; it names the largest part that a setting
    shrinks.
    """
    found = estimate(config, lengths, members, download=True)
    device = device_of(config.model)
    free = torch.cuda.mem_get_info()[0] if device.type == "cuda" else psutil.virtual_memory().available
    need = total(found)
    if need > free:
        raise ModelError(
            f"'{config.model.name}' with {members} members needs about {need / 2**30:.1f} GiB, {device.type} has "
            f"{free / 2**30:.1f} GiB free: {advice(found)}"
        )


def advice(found: Sequence[Item]) -> str:
    """What to turn: the knob of the largest part that has one."""
    most = max((item for item in found if item.knob), key=lambda item: item.total)
    what = f"set {most.knob}" if "=" in most.knob else f"lower {most.knob}"
    return f"{what} ({most.name}: {most.total / 2**30:.1f} GiB), or choose a smaller model.name"


def total(found: Sequence[Item]) -> int:
    """Bytes of all processes together."""
    return sum(item.total for item in found)
