"""Makes a run fit into the memory that is free: fewer workers, smaller batches, recomputed activations.

None of these changes what a run computes, apart from how sums are rounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import torch

from redqueen.base.optional import is_installed
from redqueen.config import BUNDLED, Config, SamplingConfig
from redqueen.engine.memory.estimate import (
    Item,
    gradients_item,
    held_items,
    host_items,
    items,
    least,
    longest_text,
    sampling_items,
    total,
    training_items,
)
from redqueen.engine.memory.machine import Machine
from redqueen.engine.model.base import check_workers
from redqueen.engine.sampling.pages import PAGE, pages_of
from redqueen.errors import ModelError
from redqueen.records import PromptLengths

# Smaller batches than these save next to nothing.
_LEAST_TOKENS = 256
_LEAST_ROWS = 16
_LEAST_PREFILL = 2048
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


def fit(config: Config, machine: Machine, lengths: PromptLengths, members: int) -> Fit:
    """Returns the first of `plans` that fits in the machine's free memory.

    Raises ModelError if not even the smallest one does while every text is short; the line names what would help most.
    """
    if machine.shape.hosted:
        check_workers(config.model)
    free = machine.free
    asked = config
    config = with_engine(config, machine)
    if machine.on_gpu:
        free = _planned(free)
        _check_host(config, machine, members)
    plan = config
    for plan in plans(config, machine, lengths, members):
        if total(items(plan, machine, lengths, members)) <= free:
            return Fit(plan, changes(asked, plan, machine), machine.free, "")
    # The estimates are upper bounds, and a run seldom comes near them. To refuse on them would refuse runs that fit.
    subject = f"'{config.model.name}' with {members} members"
    has = f"{machine.device.type} has {machine.free / 2**30:.1f} GiB free"
    if free < machine.free:
        has += f", of which {free / 2**30:.1f} can be planned"
    required = items(least(plan), machine, lengths, members)
    if total(required) > free:
        raise ModelError(
            f"{subject} needs at least {total(required) / 2**30:.1f} GiB, {has}: "
            f"end other programs, or {_what_helps(plan, machine, lengths, members)}"
        )
    largest = items(plan, machine, lengths, members)
    warning = f"{subject} may need up to {total(largest) / 2**30:.1f} GiB, {has}: if it is killed, {advice(largest)}"
    return Fit(plan, changes(asked, plan, machine), machine.free, warning)


def with_engine(config: Config, machine: Machine) -> Config:
    """Returns `config` with the embedded sampler or vLLM in place of auto.

    vLLM samples on a GPU where it is installed and where its copy of the base takes less than a fifth of what is free.
    It then gets as much for its keys and values, unless the configuration says how much.
    """
    if config.sampling.engine != "auto":
        return config
    # A second copy of a base that takes more would leave too little to rows and to training, whoever samples faster.
    copy = machine.shape.weights * machine.dtype.itemsize
    suits = machine.on_gpu and copy < _VLLM_SHARE * machine.free and is_installed("vllm")
    chosen: dict[str, object] = {"engine": "vllm" if suits else "embedded"}
    if suits and config.sampling.vllm_cache_gb == SamplingConfig().vllm_cache_gb:
        chosen["vllm_cache_gb"] = round(_VLLM_SHARE * machine.free / 2**30, 1)
    return config.with_values("sampling", **chosen)


def _planned(free: int) -> int:
    """Returns how many of a GPU's free bytes a plan may use."""
    return free - max(int(free * _LEFT_SHARE), _LEFT_BYTES)


def least_memory(config: Config, machine: Machine, lengths: PromptLengths, members: int) -> int:
    """Returns how many bytes of a machine's own memory one process needs in any case, whatever it does with batches."""
    if machine.on_gpu:
        return total(host_items(config, machine, members))
    *_, smallest = plans(config, machine, lengths, members)
    return total(items(least(smallest), machine, lengths, members))


def _check_host(config: Config, machine: Machine, members: int) -> None:
    """Raises ModelError if the machine with the GPU has too little memory of its own."""
    need = total(host_items(config, machine, members))
    if machine.host is not None and need > machine.host:
        raise ModelError(
            f"'{config.model.name}' with {members} members needs {need / 2**30:.1f} GiB of the machine's own memory to "
            f"load and to save, and {machine.host / 2**30:.1f} GiB are free: end other programs, or choose a smaller "
            "model.name"
        )


def plans(config: Config, machine: Machine, lengths: PromptLengths, members: int) -> Iterator[Config]:
    """Yields `config` without any auto, and then what needs less and less memory and takes more and more time."""
    if machine.on_gpu:
        yield _plan_on_a_gpu(config, machine, lengths, members)
        return
    config = _started(config, "cpu")
    # One worker less costs more speed than small batches do, so batches shrink first.
    for workers in range(machine.workers, 0, -1):
        plan = config.with_values("model", workers=workers)
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


def _plan_on_a_gpu(config: Config, machine: Machine, lengths: PromptLengths, members: int) -> Config:
    """Returns what suits a GPU: training and sampling take turns there, so each is made to fit by itself."""
    plan = _started(config, "cuda").with_values("model", workers=1)
    held = total(held_items(plan, machine, members))
    remaining = _planned(machine.free) - held

    gradients = gradients_item(plan, machine, members).total
    # An update that has begun keeps its gradients until the next step is sampled.
    room = remaining - gradients if config.learning.max_staleness else remaining
    paged = machine.pages
    # The cache of more rows is worth more than larger passes over prompts: these shrink first.
    while total(sampling_items(plan, machine, lengths)) > room:
        smaller = _with_fewer_pages(plan, machine, lengths, room) if paged else None
        if plan.sampling.prefill_tokens > 2 * _LEAST_PREFILL:
            plan = plan.with_values("sampling", prefill_tokens=plan.sampling.prefill_tokens // 2)
        elif smaller is not None:
            plan = smaller
        elif plan.sampling.batch_rows > _LEAST_ROWS:
            fewer = max(rows for rows in _ROWS_ON_A_GPU if rows < plan.sampling.batch_rows)
            plan = plan.with_values("sampling", batch_rows=fewer)
        else:
            break

    most = plan.learning.batch_tokens
    longest = longest_text(plan, lengths)
    while gradients + total(training_items(plan, machine, lengths)) > remaining:
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


def _with_fewer_pages(config: Config, machine: Machine, lengths: PromptLengths, room: int) -> Config | None:
    """Returns a configuration whose rows share as many pages as there is room for; None if these are too few."""
    cache, *others = sampling_items(config, machine, lengths)
    page = PAGE * machine.token_bytes
    pages = (room - total(others)) // page - 1
    # Most rows are far from their longest text. With too few pages for them, though, many would be put back.
    longest = longest_text(config, lengths)
    if pages < pages_of(longest) or pages * PAGE * _ROWS_A_ROOM < config.sampling.batch_rows * longest:
        return None
    return config.with_values("sampling", cache_tokens=min(pages, cache.size // page) * PAGE)


def _started(config: Config, device: str) -> Config:
    """Returns the configuration with the largest values in place of auto."""
    sampling = config.sampling
    learning = config.learning
    config = config.with_values(
        "sampling",
        batch_rows=sampling.batch_rows or _ROWS[device],
        prefill_tokens=sampling.prefill_tokens or _PREFILL_TOKENS,
    )
    return config.with_values(
        "learning",
        batch_tokens=learning.batch_tokens or _BATCH_TOKENS[device],
        checkpointing=learning.checkpointing is True,
    )


def changes(asked: Config, plan: Config, machine: Machine) -> tuple[str, ...]:
    """Returns the settings of `plan` that are less than what was asked, as `key=value`.

    What was left to the plan is named as well where it is less than on a machine with more memory.
    """
    most = _started(asked, machine.device.type)
    differing: list[str] = []
    if plan.sampling.engine != asked.sampling.engine and plan.sampling.engine == "vllm":
        differing += ["sampling.engine=vllm", f"sampling.vllm_cache_gb={plan.sampling.vllm_cache_gb}"]
    if not machine.on_gpu and plan.model.workers < machine.workers:
        differing.append(f"model.workers={plan.model.workers}")
    if plan.learning.checkpointing != most.learning.checkpointing:
        differing.append("learning.checkpointing=true")
    for key in _SHRUNK:
        value = attrgetter(key)(plan)
        if value != attrgetter(key)(most):
            differing.append(f"{key}={value}")
    return tuple(differing)


def advice(need: Sequence[Item]) -> str:
    """Returns advice on which setting to change: the one that shrinks the largest part."""
    most = max((item for item in need if item.knob), key=lambda item: item.total)
    what = f"set {most.knob}" if "=" in most.knob else f"lower {most.knob}"
    return f"{what} ({most.name}: {most.total / 2**30:.1f} GiB)"


def _what_helps(plan: Config, machine: Machine, lengths: PromptLengths, members: int) -> str:
    """Returns the change that saves most of what a run needs in any case."""
    choices: dict[str, tuple[Config, Machine, int]] = {}
    if plan.model.rank > 1:
        smaller = plan.with_values("model", rank=plan.model.rank // 2)
        choices[f"set model.rank={plan.model.rank // 2}"] = (smaller, machine, members)
    if machine.dtype == torch.float32:
        choices["set model.dtype=bfloat16 (slower)"] = (plan, replace(machine, dtype=torch.bfloat16), members)
    if members > 1:
        choices["take half as many members"] = (plan, machine, members // 2)
    needed = {
        what: total(items(least(config), there, lengths, count)) for what, (config, there, count) in choices.items()
    }
    best = min(needed, key=lambda what: needed[what])
    saved = total(items(least(plan), machine, lengths, members)) - needed[best]
    alternative = "" if plan.model.name == BUNDLED else ", or choose a smaller model.name"
    return f"{best}, which saves {saved / 2**30:.1f} GiB{alternative}"
