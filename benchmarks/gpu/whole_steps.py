"""Three whole steps of a run with changing rooms: what is reserved and allocated after each, against the plan.

Rows have prompts that nearly fill their room, so that the KV cache is as large as a run's and few tokens are sampled.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from benchmarks.gpu.clock import synchronize
from benchmarks.gpu.output import folder, say
from benchmarks.gpu.planned_memory import PlannedMemory
from benchmarks.gpu.shapes import Shape, random_decoder, random_members, random_policy
from benchmarks.gpu.workload import ATTEMPTS, Draw
from redqueen.config import LearningConfig
from redqueen.policy.policy import Policy
from redqueen.policy.sampling.completion import Row
from redqueen.policy.sampling.continuous_batch import BatchLimits, RowGroup
from redqueen.records import Sample, SamplingParams

# The shares of the planned room that the steps' longest texts have.
_ROOMS = (1.0, 0.994, 0.97)
_SAMPLED = 16


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of a run."""

    rows: int
    room: int
    prefill: int
    tokens: int
    """Of a micro-batch."""
    checkpointing: bool
    planned: int
    """Bytes that the plan needs."""


def run_steps(shape: Shape, device: torch.device, members: int, batches: Batches) -> None:
    """Takes three steps. If memory runs out, a snapshot of it is among the results, and the error is raised."""
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.memory._record_memory_history(max_entries=200_000)  # pyright: ignore[reportPrivateUsage]
    decoder = random_decoder(shape, device)
    bank = random_members(decoder, shape, members)
    learning = LearningConfig(lr=1e-5, batch_tokens=batches.tokens, checkpointing=batches.checkpointing)
    policy = random_policy(decoder, bank, learning)
    say("rows, room, tokens of a micro-batch", (batches.rows, batches.room, batches.tokens))
    _say_memory("after the members joined", device, batches.planned)
    try:
        for step, share in enumerate(_ROOMS, 1):
            _step(policy, shape, batches, int(batches.room * share), step)
            _say_memory(f"after step {step}", device, batches.planned)
    except torch.OutOfMemoryError:
        place = folder()
        if on_gpu and place is not None:
            torch.cuda.memory._dump_snapshot(str(place / "memory.pickle"))  # pyright: ignore[reportPrivateUsage]
            say("memory ran out: a snapshot is in", "memory.pickle", "no error")
        raise


def planned_batches(plan: PlannedMemory, free: int) -> Batches:
    """Returns what a run of `paper_7b` would take on a GPU with so many free bytes."""
    config, room, need = plan.fitted(free)
    return Batches(
        rows=config.sampling.batch_rows,
        room=room,
        prefill=config.sampling.prefill_tokens,
        tokens=config.learning.batch_tokens,
        checkpointing=config.learning.checkpointing is True,
        planned=need,
    )


def _step(policy: Policy, shape: Shape, batches: Batches, room: int, step: int) -> None:
    """Samples a batch of rows, and trains as many of them as three micro-batches hold."""
    draw = Draw(shape.vocabulary, seed=step)
    groups: list[RowGroup] = []
    for number in range(batches.rows // ATTEMPTS):
        rows = [
            Row(ATTEMPTS * number + i, ("step", step, number, i), SamplingParams(max_tokens=_SAMPLED), ())
            for i in range(ATTEMPTS)
        ]
        groups.append(RowGroup(number % len(policy.members), draw.tokens(room - _SAMPLED), rows))
    start = time.perf_counter()
    policy.executor.sample(groups, BatchLimits(batches.rows, batches.prefill), lambda row: None)
    synchronize()
    sampled = time.perf_counter()
    samples: list[Sample] = []
    tokens = 0
    for group in groups:
        if tokens > 2.5 * batches.tokens:
            break
        tokens += len(group.prompt_ids) + ATTEMPTS * _SAMPLED
        samples += _samples(policy.members[group.slot], group)
    policy.learner.update(samples)
    synchronize()
    say(f"step {step}: seconds of sampling, of learning", [round(sampled - start, 2), round(_since(sampled), 2)])


def _since(start: float) -> float:
    return time.perf_counter() - start


def _samples(member: str, group: RowGroup) -> list[Sample]:
    """Returns a group's texts as samples, every second one bad."""
    return [
        Sample(
            member=member,
            prompt_ids=group.prompt_ids,
            token_ids=tuple(row.token_ids),
            logprobs=tuple(row.logprobs),
            advantage=1.0 - 2 * (row.index % 2),
        )
        for row in group.rows
    ]


def _say_memory(when: str, device: torch.device, planned: int) -> None:
    """Prints the GB that tensors have and have had at most, and that torch has taken."""
    if device.type != "cuda":
        say(f"   {when}: GB allocated, at most, reserved at most", "not measured", f"{planned / 1e9:.1f}")
        return
    numbers = (
        torch.cuda.memory_allocated(device),
        torch.cuda.max_memory_allocated(device),
        torch.cuda.max_memory_reserved(device),
    )
    rounded = [round(number / 1e9, 2) for number in numbers]
    say(f"   {when}: GB allocated, at most, reserved at most", rounded, f"{planned / 1e9:.1f}")
