"""Makes a run fit into the memory that is free: fewer workers, smaller batches, recomputed activations.

None of these changes what a run computes, apart from how sums are rounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import torch

from redqueen.base.optional import is_installed
from redqueen.config import BUNDLED, Config, ModelConfig, SamplingConfig
from redqueen.engine.memory.estimate import (
    Item,
    gradients_item,
    held_items,
    host_items,
    items,
    least,
    sampling_items,
    total,
    training_items,
)
from redqueen.engine.memory.machine import VLLM_RANKS, Demand, Machine
from redqueen.engine.model.base import check_workers
from redqueen.engine.sampling.kv_cache import PAGE, pages_of
from redqueen.errors import ModelError
from redqueen.records import PromptLengths

# Smaller batches than these save next to nothing.
_LEAST_TOKENS = 256
_LEAST_ROWS = 16
_LEAST_PREFILL = 4096
# What auto begins with.
_ROWS = {"cpu": 64, "cuda": 512}
_BATCH_TOKENS = {"cpu": 4096, "cuda": 16384}
_PREFILL_TOKENS = 16384
# How many rows are tried on a GPU, where a cache takes tens of gigabytes: halves would leave much of it unused.
_ROWS_ON_A_GPU = (_LEAST_ROWS, 32, 48, 64, 96, 128, 192, 256, 320, 384, 448, 512)
# How many rows may be planned for the tokens that one may need at most, where rows take pages as they grow.
_ROWS_A_ROOM = 6
# On a GPU a micro-batch of this size keeps the processor busy. A smaller one is worse than recomputed activations.
_BUSY_TOKENS = 4096
# What is left of a GPU's free memory to kernels' code, CUDA graphs and fragmentation: a share, and at least some bytes.
_LEFT_SHARE = 0.05
_LEFT_BYTES = 1_500_000_000
# The largest share of a GPU's free memory that vLLM's copy of the base may take, and what its cache gets.
_VLLM_SHARE = 0.2
# What a plan makes smaller.
_SHRUNK = ("learning.batch_tokens", "sampling.batch_rows", "sampling.cache_tokens", "sampling.prefill_tokens")


@dataclass(frozen=True, slots=True)
class Fit:
    """A configuration that fits, and what had to change for it."""

    config: Config
    """With the number of workers, never 0, and without any auto."""
    changes: tuple[str, ...]
    """The settings that differ from what was asked, as `key=value`; empty if everything fits as it was asked."""
    free: int
    """Free bytes."""
    warning: str
    """One line if the run fits only while texts end before their limits; empty if it fits in any case."""
    demand: Demand
    """What a run with `config` asks of the machine."""


def fit(config: Config, machine: Machine, lengths: PromptLengths, members: int) -> Fit:
    """Returns the first of `plans` that fits in the machine's free memory.

    Raises ModelError if not even the smallest one does while every text is short; the line names what would help most.
    """
    if machine.shape.hosted:
        check_workers(config.model)
    free = _planned(machine)
    asked = Demand.of(config, machine, lengths, members)
    chosen = replace(asked, sampling=with_engine(asked.sampling, asked.model, machine))
    if machine.on_gpu:
        _check_host(chosen)

    def found(plan: Demand, warning: str = "") -> Fit:
        sections = {"model": plan.model, "sampling": plan.sampling, "learning": plan.learning}
        return Fit(config.model_copy(update=sections), changes(asked, plan), machine.free, warning, plan)

    plan = chosen
    for plan in plans(chosen):
        if total(items(plan)) <= free:
            return found(plan)
    # The estimates are upper bounds, and a run seldom comes near them. To refuse on them would refuse runs that fit.
    subject = f"'{config.model.name}' with {members} members"
    has = f"{machine.device.type} has {machine.free / 2**30:.1f} GiB free"
    if free < machine.free:
        has += f", of which {free / 2**30:.1f} can be planned"
    required = items(least(plan))
    if total(required) > free:
        raise ModelError(
            f"{subject} needs at least {total(required) / 2**30:.1f} GiB, {has}: "
            f"end other programs, or {_what_helps(plan)}"
        )
    largest = items(plan)
    warning = f"{subject} may need up to {total(largest) / 2**30:.1f} GiB, {has}: if it is killed, {advice(largest)}"
    return found(plan, warning)


def with_engine(sampling: SamplingConfig, model: ModelConfig, machine: Machine) -> SamplingConfig:
    """Returns `sampling` with the embedded sampler or vLLM in place of auto.

    vLLM samples on a GPU where it is installed, where it has adapters of this rank and a base in 16 bits, and where its
    copy of the base takes less than a fifth of what is free. It then gets as much for its keys and values, unless the
    configuration says how much.
    """
    if sampling.engine != "auto":
        return sampling
    # A second copy of a base that takes more would leave too little to rows and to training, whoever samples faster.
    copy = machine.shape.weights * machine.dtype.itemsize
    able = model.quantize == "off" and model.rank <= VLLM_RANKS[-1]
    suits = able and machine.on_gpu and copy < _VLLM_SHARE * machine.free and is_installed("vllm")
    chosen: dict[str, object] = {"engine": "vllm" if suits else "embedded"}
    if suits and sampling.vllm_cache_gb == SamplingConfig().vllm_cache_gb:
        chosen["vllm_cache_gb"] = round(_VLLM_SHARE * machine.free / 2**30, 1)
    return sampling.model_copy(update=chosen)


def _planned(machine: Machine) -> int:
    """Returns how many of the free bytes a plan may use: not all those of a GPU."""
    free = machine.free
    if not machine.on_gpu:
        return free
    return free - max(int(free * _LEFT_SHARE), _LEFT_BYTES)


def least_memory(demand: Demand) -> int:
    """Returns how many bytes of a machine's own memory one process needs in any case, whatever it does with batches."""
    if demand.machine.on_gpu:
        return total(host_items(demand))
    *_, smallest = plans(demand)
    return total(items(least(smallest)))


def _check_host(demand: Demand) -> None:
    """Raises ModelError if the machine with the GPU has too little memory of its own."""
    need = total(host_items(demand))
    free = demand.machine.host
    if free is not None and need > free:
        raise ModelError(
            f"'{demand.model.name}' with {demand.members} members needs {need / 2**30:.1f} GiB of the machine's own "
            f"memory to load and to save, and {free / 2**30:.1f} GiB are free: end other programs, or choose a smaller "
            "model.name"
        )


def plans(demand: Demand) -> Iterator[Demand]:
    """Yields `demand` without any auto, and then what needs less and less memory and takes more and more time."""
    if demand.machine.on_gpu:
        yield _plan_on_a_gpu(demand)
        return
    demand = _started(demand)
    # One worker less costs more speed than small batches do, so batches shrink first.
    for workers in range(demand.machine.workers, 0, -1):
        plan = demand.with_values("model", workers=workers)
        yield plan
        if not plan.learning.checkpointing:
            plan = plan.with_values("learning", checkpointing=True)
            yield plan
        while plan.learning.batch_tokens >= 2 * _LEAST_TOKENS:
            plan = plan.with_values("learning", batch_tokens=plan.learning.batch_tokens // 2)
            yield plan
        while plan.sampling.batch_rows >= 2 * _LEAST_ROWS:
            plan = plan.with_values("sampling", batch_rows=plan.sampling.batch_rows // 2)
            yield plan


def _plan_on_a_gpu(demand: Demand) -> Demand:
    """Returns what suits a GPU: training and sampling take turns there, so each is made to fit by itself."""
    machine = demand.machine
    plan = _started(demand).with_values("model", workers=1)
    remaining = _planned(machine) - total(held_items(plan))

    gradients = gradients_item(plan).total
    # An update that has begun keeps its gradients until the next step is sampled.
    room = remaining - gradients if demand.learning.max_staleness else remaining
    # The cache of more rows is worth more than larger passes over prompts: these shrink first.
    while total(sampling_items(plan)) > room:
        smaller = _with_fewer_pages(plan, room) if machine.pages else None
        if plan.sampling.prefill_tokens > _LEAST_PREFILL:
            plan = plan.with_values("sampling", prefill_tokens=plan.sampling.prefill_tokens // 2)
        elif smaller is not None:
            plan = smaller
        elif plan.sampling.batch_rows > _LEAST_ROWS:
            fewer = max(rows for rows in _ROWS_ON_A_GPU if rows < plan.sampling.batch_rows)
            plan = plan.with_values("sampling", batch_rows=fewer)
        else:
            break
    plan = _bounded(plan, room)

    most = plan.learning.batch_tokens
    longest = plan.longest_text
    while gradients + total(training_items(plan)) > remaining:
        tokens = plan.learning.batch_tokens
        # A text is never split, so that smaller micro-batches than the longest text would save nothing. Recomputing
        # costs half of the work again, a smaller micro-batch next to nothing as long as it fills the GPU.
        smallest = longest if plan.learning.checkpointing else max(longest, _BUSY_TOKENS)
        if tokens > smallest:
            plan = plan.with_values("learning", batch_tokens=max(tokens // 2, smallest))
        elif not plan.learning.checkpointing:
            plan = plan.with_values("learning", checkpointing=True, batch_tokens=most)
        else:
            break
    return plan


def _with_fewer_pages(demand: Demand, room: int) -> Demand | None:
    """Returns a demand whose rows share as many pages as there is room for; None if these are too few."""
    # Pages are our own sampler's.
    if demand.sampling.engine == "vllm":
        return None
    pages = _pages_in(demand, room)
    # Most rows are far from their longest text. With too few pages for them, though, many would be put back.
    longest = demand.longest_text
    if pages < pages_of(longest) or pages * PAGE * _ROWS_A_ROOM < demand.sampling.batch_rows * longest:
        return None
    cache, *_ = sampling_items(demand)
    held = cache.size // (PAGE * demand.machine.token_bytes)
    return demand.with_values("sampling", cache_tokens=min(pages, held) * PAGE)


def _bounded(demand: Demand, room: int) -> Demand:
    """Returns a demand whose batches never take more pages than there is room for.

    The plan is made for the game's texts. An evaluation's may be longer, and without a limit as many rows of them would
    take what they like.
    """
    if not demand.machine.pages or demand.sampling.cache_tokens or demand.sampling.engine == "vllm":
        return demand
    return demand.with_values("sampling", cache_tokens=max(_pages_in(demand, room) * PAGE, _whole_cache(demand)))


def _pages_in(demand: Demand, room: int) -> int:
    """Returns how many pages of rows fit into `room` bytes beside what else sampling takes."""
    _, *others = sampling_items(demand)
    return (room - total(others)) // (PAGE * demand.machine.token_bytes) - 1


def _whole_cache(demand: Demand) -> int:
    """Returns the tokens that all rows of a batch of the game can have together."""
    cache, *_ = sampling_items(demand.with_values("sampling", cache_tokens=0))
    return (cache.size // (PAGE * demand.machine.token_bytes) - 1) * PAGE


def _started(demand: Demand) -> Demand:
    """Returns the demand with the largest values in place of auto."""
    sampling = demand.sampling
    learning = demand.learning
    device = "cuda" if demand.machine.on_gpu else "cpu"
    demand = demand.with_values(
        "sampling",
        batch_rows=sampling.batch_rows or _ROWS[device],
        prefill_tokens=sampling.prefill_tokens or _PREFILL_TOKENS,
    )
    return demand.with_values(
        "learning",
        batch_tokens=learning.batch_tokens or _BATCH_TOKENS[device],
        checkpointing=learning.checkpointing is True,
    )


def changes(asked: Demand, plan: Demand) -> tuple[str, ...]:
    """Returns the settings of `plan` that are less than what was asked, as `key=value`.

    What was left to the plan is named as well where it is less than on a machine with more memory.
    """
    most = _started(asked)
    differing: list[str] = []
    if plan.sampling.engine != asked.sampling.engine and plan.sampling.engine == "vllm":
        differing += ["sampling.engine=vllm", f"sampling.vllm_cache_gb={plan.sampling.vllm_cache_gb}"]
    if not plan.machine.on_gpu and plan.model.workers < plan.machine.workers:
        differing.append(f"model.workers={plan.model.workers}")
    if plan.learning.checkpointing != most.learning.checkpointing:
        differing.append("learning.checkpointing=true")
    for key in _SHRUNK:
        value = attrgetter(key)(plan)
        # A limit that the game's own rows do not reach takes nothing from them.
        is_wide = (
            key == "sampling.cache_tokens" and value and not attrgetter(key)(asked) and value >= _whole_cache(plan)
        )
        if value != attrgetter(key)(most) and not is_wide:
            differing.append(f"{key}={value}")
    return tuple(differing)


def advice(need: Sequence[Item]) -> str:
    """Returns advice on which setting to change: the one that shrinks the largest part."""
    most = max((item for item in need if item.knob), key=lambda item: item.total)
    what = f"set {most.knob}" if "=" in most.knob else f"lower {most.knob}"
    return f"{what} ({most.name}: {most.total / 2**30:.1f} GiB)"


def _what_helps(plan: Demand) -> str:
    """Returns the change that saves most of what a run needs in any case."""
    choices: dict[str, Demand] = {}
    if plan.model.rank > 1:
        choices[f"set model.rank={plan.model.rank // 2}"] = plan.with_values("model", rank=plan.model.rank // 2)
    if plan.machine.dtype == torch.float32:
        halved = replace(plan.machine, dtype=torch.bfloat16)
        choices["set model.dtype=bfloat16 (slower)"] = replace(plan, machine=halved)
    if plan.members > 1:
        choices["take half as many members"] = replace(plan, members=plan.members // 2)
    if not choices:
        return "choose a smaller model.name"
    needed = {what: total(items(least(smaller))) for what, smaller in choices.items()}
    best = min(needed, key=lambda what: needed[what])
    saved = total(items(least(plan))) - needed[best]
    alternative = "" if plan.model.name == BUNDLED else ", or choose a smaller model.name"
    return f"{best}, which saves {saved / 2**30:.1f} GiB{alternative}"
