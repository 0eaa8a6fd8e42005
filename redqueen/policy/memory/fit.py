"""Makes a run fit into the memory that is free: fewer workers, smaller batches, recomputed activations.

None of these changes what a run computes, apart from how sums are rounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from redqueen.config import BUNDLED, Config
from redqueen.errors import ModelError
from redqueen.machine import cores, free_memory
from redqueen.policy.memory.estimate import Item, items, least, total, total_of
from redqueen.policy.model.base import can_share, device_of, dtype_of
from redqueen.policy.model.dimensions import Shape, shape_of
from redqueen.records import PromptLengths

# Smaller batches than these save next to nothing.
_LEAST_TOKENS = 256
_LEAST_ROWS = 16


@dataclass(frozen=True, slots=True)
class Fit:
    """A configuration that fits, and what had to change for it."""

    config: Config
    """With the number of workers, never 0."""
    changes: tuple[str, ...]
    """The settings that differ from what was asked, as `key=value`; empty if everything fits as it was asked."""
    free: int
    """Free bytes."""
    warning: str
    """One line if the run fits only while texts end before their limits; empty if it fits in any case."""


def fit(config: Config, lengths: PromptLengths, members: int) -> Fit:
    """Returns the first of `plans` that fits in free memory.

    Raises ModelError if not even the smallest one does while every text is short; the line names what would help most.
    """
    device = device_of(config.model)
    free = torch.cuda.mem_get_info()[0] if device.type == "cuda" else free_memory()
    shape = shape_of(config.model)
    plan = config
    for plan in plans(config):
        if total(items(plan, shape, lengths, members)) <= free:
            return Fit(plan, changes(config, plan), free, "")
    # The estimates are upper bounds, and a run seldom comes near them. To refuse on them would refuse runs that fit.
    subject = f"'{config.model.name}' with {members} members"
    has = f"{device.type} has {free / 2**30:.1f} GiB free"
    required = items(least(plan), shape, lengths, members)
    if total(required) > free:
        raise ModelError(
            f"{subject} needs at least {total(required) / 2**30:.1f} GiB, {has}: "
            f"end other programs, or {_what_helps(plan, shape, lengths, members)}"
        )
    largest = items(plan, shape, lengths, members)
    warning = f"{subject} may need up to {total(largest) / 2**30:.1f} GiB, {has}: if it is killed, {advice(largest)}"
    return Fit(plan, changes(config, plan), free, warning)


def plans(config: Config) -> Iterator[Config]:
    """Yields `config`, and then what needs less and less memory and takes more and more time."""
    # One worker less costs more speed than small batches do, so batches shrink first.
    for workers in range(_most_workers(config), 0, -1):
        plan = config.model_copy(update={"model": config.model.model_copy(update={"workers": workers})})
        yield plan
        if not plan.learning.checkpointing:
            plan = _with(plan, "learning", checkpointing=True)
            yield plan
        while plan.learning.batch_tokens >= 2 * _LEAST_TOKENS:
            plan = _with(plan, "learning", batch_tokens=plan.learning.batch_tokens // 2)
            yield plan
        while plan.sampling.batch_rows >= 2 * _LEAST_ROWS:
            plan = _with(plan, "sampling", batch_rows=plan.sampling.batch_rows // 2)
            yield plan


def _with(config: Config, section: str, **values: object) -> Config:
    """Returns a copy with other values in one section."""
    return config.model_copy(update={section: getattr(config, section).model_copy(update=values)})


def _most_workers(config: Config) -> int:
    if config.model.workers:
        return config.model.workers
    return cores() if can_share(config.model) else 1


def changes(asked: Config, plan: Config) -> tuple[str, ...]:
    """Returns the settings of `plan` that are less than what was asked, as `key=value`."""
    differing: list[str] = []
    if plan.model.workers < _most_workers(asked):
        differing.append(f"model.workers={plan.model.workers}")
    if plan.learning.checkpointing != asked.learning.checkpointing:
        differing.append("learning.checkpointing=true")
    if plan.learning.batch_tokens != asked.learning.batch_tokens:
        differing.append(f"learning.batch_tokens={plan.learning.batch_tokens}")
    if plan.sampling.batch_rows != asked.sampling.batch_rows:
        differing.append(f"sampling.batch_rows={plan.sampling.batch_rows}")
    return tuple(differing)


def advice(need: Sequence[Item]) -> str:
    """Returns advice on which setting to change: the one that shrinks the largest part."""
    most = max((item for item in need if item.knob), key=total_of)
    what = f"set {most.knob}" if "=" in most.knob else f"lower {most.knob}"
    return f"{what} ({most.name}: {most.total / 2**30:.1f} GiB)"


def _what_helps(plan: Config, shape: Shape, lengths: PromptLengths, members: int) -> str:
    """Returns the change that saves most of what a run needs in any case."""
    choices: dict[str, tuple[Config, int]] = {}
    if plan.model.rank > 1:
        choices[f"set model.rank={plan.model.rank // 2}"] = (_with(plan, "model", rank=plan.model.rank // 2), members)
    if dtype_of(plan.model, device_of(plan.model)) == torch.float32:
        choices["set model.dtype=bfloat16 (slower)"] = (_with(plan, "model", dtype="bfloat16"), members)
    if members > 1:
        choices["take half as many members"] = (plan, members // 2)
    needed = {what: total(items(least(config), shape, lengths, count)) for what, (config, count) in choices.items()}
    best = min(needed, key=lambda what: needed[what])
    saved = total(items(least(plan), shape, lengths, members)) - needed[best]
    other = "" if plan.model.name == BUNDLED else ", or choose a smaller model.name"
    return f"{best}, which saves {saved / 2**30:.1f} GiB{other}"
