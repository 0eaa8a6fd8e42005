"""Estimates the memory that a run needs, before it starts.

Sizes follow from the code: what is saved for the backward pass, how the KV cache grows. Prompts are as long as the seed
programs make them, and completions as long as they may be; every proposal is taken to be valid. So the estimate is an
upper bound, and `least` gives the lower one. Five constants are measured (`_LIBRARIES`, `_WORKER_LIBRARIES`, `_LOADED`,
`_FRAGMENTATION`, `_VLLM_LIBRARIES`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from redqueen.config import SamplingConfig
from redqueen.engine.kernels import Kernels
from redqueen.engine.kernels.dispatch import kernels_of
from redqueen.engine.kernels.torch_ops import packs
from redqueen.engine.memory import hosted
from redqueen.engine.memory.machine import Demand, largest_rank
from redqueen.engine.model.base import streams_to
from redqueen.engine.model.dimensions import Shape
from redqueen.engine.sampling.kv_cache import PAGE, batch_pages
from redqueen.engine.sampling.tokens import VOCABULARY_BLOCK

_MB = 10**6
# Resident memory after the imports, with transformers and without it (torch 2.13, Linux).
_LIBRARIES = 375 * _MB
_WORKER_LIBRARIES = 220 * _MB
# The tokenizer and what loading leaves behind.
_LOADED = 40 * _MB
# Fragmentation of the heap: extra memory as a share of what a step allocates there and frees. The KV cache is not
# there: its tensors are so large that each has a mapping of its own, which is gone when the tensor is.
_FRAGMENTATION = 0.15
# torch's kernels hold a chunk's logits, and two fp32 tensors of the same shape.
_FP32_SCRATCH = 2 * 4
# vLLM 0.32's two processes on a CPU and its import in this one, without what is counted apart.
_VLLM_LIBRARIES = 1500 * _MB
# cuBLAS keeps 32 MiB on Hopper, and less on others, for each pair of a thread and a stream: there are three. From its
# documentation, not measured.
_GPU_WORKSPACES = 100 * _MB
# With the libraries of CUDA, of which not all parts are loaded. Not measured: no GPU was there.
_HOST_LIBRARIES = 3000 * _MB


@dataclass(frozen=True, slots=True)
class Item:
    """One part of the memory that a run needs."""

    name: str
    size: int
    """Bytes in each process."""
    processes: int = 1
    knob: str = ""
    """The setting that shrinks this part; empty if there is none."""

    @property
    def total(self) -> int:
        """The bytes of all processes."""
        return self.size * self.processes


def items(demand: Demand) -> list[Item]:
    """Returns the items of a run at the peak.

    On a CPU all of them exist at once: what training frees stays in the process's heap, and the KV cache is not there.
    On a GPU, training and sampling reuse the same blocks.
    """
    # The largest of what exists at the same time counts, and that differs between the devices.
    training = training_items(demand)
    sampling = sampling_items(demand)
    held = held_items(demand)
    gradients = gradients_item(demand)
    if demand.machine.on_gpu:
        # An update that has begun keeps its gradients until the next step is sampled.
        begun = [gradients] if demand.learning.max_staleness else []
        return [*held, *max([gradients, *training], [*begun, *sampling], key=total)]
    return [*held, gradients, *training, *sampling, fragmentation([*training, *sampling[1:]])]


def held_items(demand: Demand) -> list[Item]:
    """Returns the items that exist all the time: libraries, base, members, and vLLM if it samples."""
    held = [*_base(demand), *_members(demand)]
    if demand.sampling.engine == "vllm":
        held += _vllm(demand)
    return held


def _vllm(demand: Demand) -> list[Item]:
    """Returns what vLLM's processes take, which keep it while members are trained."""
    sampling = demand.sampling
    machine = demand.machine
    shape = machine.shape
    size = machine.dtype.itemsize
    # A copy for its products, and on a CPU the one that it was read into. One adapter more than there are members.
    copies = 1 if machine.on_gpu else 2
    adapters = copies * (demand.members + 1) * shape.factors * largest_rank(demand.model.rank) * size
    logits = sampling.batch_rows * shape.vocabulary * (size + 4)
    prompts = max(sampling.prefill_tokens, sampling.batch_rows) * _pass_bytes(shape, size)
    needed = [
        Item("vLLM: base weights", shape.weights * size),
        Item("vLLM: cache of keys and values", int(sampling.vllm_cache_gb * 2**30), 1, "sampling.vllm_cache_gb"),
        Item("vLLM: adapters", adapters, 1, _members_knob(demand.members)),
        Item("vLLM: logits and prompts", max(logits, prompts), 1, "sampling.prefill_tokens"),
    ]
    if not machine.on_gpu:
        needed.append(Item("vLLM: interpreters and libraries", _VLLM_LIBRARIES))
    return needed


def _pass_bytes(shape: Shape, size: int) -> int:
    """Returns the bytes of a block's activations for one token of a pass without gradients."""
    return size * (5 * shape.intermediate + 8 * shape.hidden)


def host_items(demand: Demand) -> list[Item]:
    """Returns what a run on a GPU needs of the machine's own memory.

    The base goes through it, and later a checkpoint has the members' weights and moments there.
    """
    machine = demand.machine
    shape = machine.shape
    # transformers reads some weights at once, of which the largest are the embedding and the output matrix.
    held = 2 * shape.vocabulary * shape.hidden if streams_to(machine.device) else shape.weights
    weights = Item("host: base while it is loaded", held * machine.dtype.itemsize)
    saved = Item("host: members while they are saved", demand.members * shape.factors * demand.model.rank * 12)
    return [Item("host: interpreter and libraries", _HOST_LIBRARIES), max(weights, saved, key=lambda item: item.total)]


def gradients_item(demand: Demand) -> Item:
    """Returns the members' gradients. On a GPU they exist only while a run trains."""
    # Each worker adds to gradients of its own, and this process sums them: one more than there are workers.
    workers = demand.processes
    size = 4 * demand.members * demand.machine.shape.factors * demand.model.rank
    return Item("members: gradients", size, 1 if workers == 1 else workers + 1, _members_knob(demand.members))


def fragmentation(allocated: Sequence[Item]) -> Item:
    """Returns what a CPU's heap needs beyond the items that a step allocates there and frees."""
    largest = max(allocated, key=lambda item: item.total)
    size = int(_FRAGMENTATION * sum(item.size for item in allocated))
    return Item("fragmentation of the heap", size, largest.processes, largest.knob)


def _base(demand: Demand) -> list[Item]:
    """Returns the libraries and all copies of the base's weights."""
    machine = demand.machine
    shape = machine.shape
    dtype = machine.dtype
    weights = Item("base weights", shape.stored(dtype))
    if machine.on_gpu:
        return [weights, Item("workspaces of libraries", _GPU_WORKSPACES)]
    workers = demand.processes
    base = [Item("interpreter and libraries", _LIBRARIES + _LOADED), weights]
    if workers > 1:
        base.append(Item("libraries in a worker", _WORKER_LIBRARIES + _LOADED, workers, "model.workers"))
    elif dtype == shape.dtype and not shape.hosted:
        # The file stays mapped, because some weights are used where they lie in it. In another dtype all are copies.
        base.append(Item("base weights, stacked", shape.stacked * dtype.itemsize))
    if packs(machine.device, dtype) and not shape.hosted:
        knob = "model.workers" if workers > 1 else ""
        base.append(Item("base weights, packed", shape.linear * dtype.itemsize, workers, knob))
    return base


def _members(demand: Demand) -> list[Item]:
    """Returns what the members need besides their gradients."""
    # A weight takes 4 bytes as a master, its copy's bytes in the base's dtype, and 2 x 4 bytes of AdamW moments.
    weights = demand.members * demand.machine.shape.factors * demand.model.rank
    knob = _members_knob(demand.members)
    return [
        Item("members: weights in fp32 and copies", weights * (4 + demand.machine.dtype.itemsize), 1, knob),
        Item("members: AdamW moments", weights * 8, 1, knob),
    ]


def _members_knob(members: int) -> str:
    """Returns the setting that shrinks the members' memory: their rank, or their number if there are many."""
    return "model.rank" if members <= 16 else "the population"


def training_items(demand: Demand) -> list[Item]:
    """Returns what a micro-batch saves for its backward pass, and the logits of one chunk."""
    machine = demand.machine
    shape = machine.shape
    dtype = machine.dtype
    workers = demand.processes
    # A sequence is never split, so a micro-batch holds at least the longest one.
    tokens = max(demand.learning.batch_tokens, demand.longest_text)
    # A GPU need not be here to be planned for, and what is computed on it is computed on meta tensors too.
    kernels = kernels_of(torch.empty(0, dtype=dtype, device="meta" if machine.on_gpu else machine.device))
    block = tokens * _saved_per_token(demand, kernels)
    activations = shape.layers * block
    # A checkpoint keeps only each block's residual stream. One block at a time is recomputed; twice its
    # size allows for its activations and the gradients that are computed from them.
    if demand.learning.checkpointing is True:
        activations = shape.layers * tokens * shape.hidden * dtype.itemsize + 2 * block
    scratch = 0 if kernels.compiled else _FP32_SCRATCH
    if shape.hosted:
        scratch = hosted.LOGITS_SCRATCH
    logits = kernels.logit_rows * shape.vocabulary * (dtype.itemsize + scratch)
    knob = "learning.batch_tokens" if demand.learning.checkpointing is True else "learning.checkpointing=true"
    items = [
        Item(f"training: activations of {tokens} tokens", activations, workers, knob),
        Item("training: logits", logits, workers),
    ]
    if kernels.varlen is not None:
        items.append(Item("training: attention's backward pass", _backward_bytes(demand, tokens), 1, knob))
    return items


def _saved_per_token(demand: Demand, kernels: Kernels) -> int:
    """Returns how many bytes one block of the decoder saves for its backward pass, per token."""
    machine = demand.machine
    shape = machine.shape
    model = demand.model
    longest = demand.longest_text
    if shape.hosted:
        whole = hosted.saved_per_token(model.name, model.targets, model.rank, machine.dtype, longest)
        return -(-whole // shape.layers)
    qkv = (shape.heads + 2 * shape.kv_heads) * shape.head_size
    # Residual streams and norms, the attention's output, its q, k and v, gate and up and their product.
    saved = 4 * shape.hidden + shape.heads * shape.head_size + qkv + 3 * shape.intermediate
    # x A of each adapted layer.
    saved += shape.inner * model.rank
    flash = kernels.varlen is not None
    if shape.head_norms or not (flash or kernels.compiled):
        # q, k and v a second time, as the product wrote them: the backward pass of the norms needs them, and plain
        # operations keep them in any case.
        saved += qkv
    if flash:
        keys = 2 * shape.kv_heads * shape.head_size * _keys_of_a_token(demand)
        # The logarithms of the softmax's sums are in fp32.
        return int((saved + keys) * machine.dtype.itemsize) + 4 * shape.heads
    # A row's attention weights over its sequence.
    return machine.dtype.itemsize * (saved + shape.heads * longest)


def _keys_of_a_token(demand: Demand) -> float:
    """Returns how many keys flash attention has for each token of a micro-batch of attempts."""
    # Keys and values are laid out anew, a prompt's before each of its continuations. The shorter these are, the more of
    # all keys are a prompt's; they are taken to have a quarter of the most tokens.
    attempts = demand.game.attempts
    text = _text_tokens(demand.sampling)
    prompt = demand.lengths.attempt
    return (prompt + attempts * (prompt + text)) / (prompt + attempts * text)


def _text_tokens(sampling: SamplingConfig) -> int:
    """Returns how many tokens an attempt is taken to have where short ones need more memory."""
    return max(1, sampling.attempt_tokens // 4)


def _backward_bytes(demand: Demand, tokens: int) -> int:
    """Returns what the backward pass of flash attention allocates in one layer, besides its results.

    As in FlashAttention-2: the gradient of q in fp32, with up to 128 rows more for each sequence, and gradients of k
    and v for all heads of q, where several of these share one of k and v.
    """
    shape = demand.machine.shape
    width = shape.heads * shape.head_size
    attempts = demand.game.attempts
    # A prompt is a sequence of its own, and so is each of its continuations.
    sequences = tokens * (attempts + 1) / (demand.lengths.attempt + attempts * _text_tokens(demand.sampling))
    wide = 4 * (width + shape.heads) * (tokens + 128 * sequences)
    keys = tokens * _keys_of_a_token(demand) if shape.heads > shape.kv_heads else 0
    return int(wide + 2 * 2 * width * keys)


def sampling_items(demand: Demand) -> list[Item]:
    """Returns the KV cache, and a step's logits or a prefill's activations, of the largest batch; none beside vLLM."""
    if demand.sampling.engine == "vllm":
        return []
    sampling = demand.sampling
    machine = demand.machine
    shape = machine.shape
    workers = demand.processes
    size = machine.dtype.itemsize
    row_token = machine.token_bytes
    batches: list[list[Item]] = []
    for most, room, prompt, shared in _batches(demand):
        rows = min(sampling.batch_rows, most)
        logits = rows * shape.vocabulary * (size + 4 + _filter_bytes(sampling)) + _padded_bytes(shape, rows)
        if machine.on_gpu:
            # The first step of as many rows is done as it is, and the second one is recorded in memory of its own.
            logits += rows * shape.vocabulary * size
        # A pass of a prefill holds a block's activations for the tokens of its prompts, each of which is computed once.
        tokens = min(rows // min(shared, rows) * prompt, max(sampling.prefill_tokens, prompt))
        prompts = tokens * _pass_bytes(shape, size)
        if machine.pages:
            pages = batch_pages(rows, room, sampling.cache_tokens)
            name = f"sampling: cache of {rows} rows, {pages} pages of {PAGE} tokens"
            held = pages * PAGE
            cache = Item(name, held * row_token, 1, "sampling.cache_tokens")
        else:
            name = f"sampling: cache of {rows} x {room} tokens"
            cache = Item(name, rows * room * row_token, workers, "sampling.batch_rows")
        step = Item("sampling: logits and prompts", max(logits, prompts), workers, "sampling.batch_rows")
        batches.append([cache, step])
    # The heap holds the second item of a batch, so it counts with its fragmentation.
    return max(batches, key=lambda batch: total([*batch, fragmentation(batch[1:])]))


def _batches(demand: Demand) -> list[tuple[int, int, int, int]]:
    """Returns for each kind of batch: the most rows, tokens of a row, tokens of a prompt, and rows of a prompt."""
    game = demand.game
    lengths = demand.lengths
    workers = demand.processes
    # The requests of a phase, rounded up, are divided among the workers.
    proposals = -(-demand.most_matches * len(game.kinds) * game.proposals // workers)
    attempts = proposals * game.attempts
    proposed = lengths.proposal + demand.sampling.proposal_tokens
    attempted = lengths.attempt + demand.sampling.attempt_tokens
    # The attempts at one task share its prompt; proposals have prompts of their own.
    alone = (attempts, attempted, lengths.attempt, game.attempts)
    if not demand.population.teachers:
        return [alone]
    if workers > 1:
        return [(proposals, proposed, lengths.proposal, 1), alone]
    # One process samples both as one stream, in one batch. What is too long for it gets a batch after it.
    return [(proposals + attempts, demand.longest_text, lengths.proposal, 1)]


def _padded_bytes(shape: Shape, rows: int) -> int:
    """Returns the bytes of the copy of the probabilities in which the vocabulary's last block is filled, if any."""
    padded = -(-shape.vocabulary // VOCABULARY_BLOCK) * VOCABULARY_BLOCK
    return 4 * rows * padded if padded != shape.vocabulary else 0


def _filter_bytes(sampling: SamplingConfig) -> int:
    """Returns the bytes per logit that top-p and top-k take."""
    if not sampling.truncates:
        return 0
    # Sorted values (4), their order (8), three masks, and four fp32 tensors of probabilities.
    return 4 + 8 + 3 + 4 * 4


def least(demand: Demand) -> Demand:
    """Returns a demand whose estimate is what the run needs in any case.

    Every text ends at once and every task is attempted once, so that only prompts fill the KV cache and micro-batches.
    """
    # Pages are needed for one row.
    demand = demand.with_values("sampling", proposal_tokens=1, attempt_tokens=1, cache_tokens=1)
    return demand.with_values("learning", batch_tokens=1, checkpointing=True).with_values("game", attempts=1)


def total(need: Sequence[Item]) -> int:
    """Returns the bytes of all items in all processes."""
    return sum(item.total for item in need)
