"""How often the host waits for a GPU, counted on a device that pretends to be one."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu import stand_ins
from benchmarks.gpu.pretend import PretendGpu, PretendTensor, moved, pretend_gpu
from benchmarks.gpu.shapes import TINY, random_decoder, random_members, random_policy, samples_of
from redqueen.config import LearningConfig
from redqueen.engine.kernels import dispatch
from redqueen.engine.kernels.transfer import HostCopy
from redqueen.engine.model.decoder import Decoder
from redqueen.engine.sampling.completion import Row
from redqueen.engine.sampling.continuous_batch import BatchLimits, RowGroup
from redqueen.records import SamplingParams

MEMBERS = 4
ATTEMPTS = 4
PROMPT_TOKENS = 12
COMPLETION_TOKENS = 40
# Two micro-batches of the samples below.
BATCH_TOKENS = 400


@dataclass(frozen=True, slots=True)
class Waits:
    """How often the host waited, by line."""

    sampling: Counter[str]
    """While it sampled four prompts of four completions of 40 tokens, all in one batch."""
    update: Counter[str]
    """In the update on these completions, two micro-batches."""


def count_waits() -> Waits:
    """Samples and takes an update on the pretended GPU."""
    stand_ins.on_cpu()
    decoder = random_decoder(TINY, torch.device("cpu"))
    before = HostCopy.wait
    os.environ[dispatch.WAYS] = "gpu"
    try:
        with pretend_gpu() as gpu:
            HostCopy.wait = _queued_earlier(gpu)
            return _count(gpu, moved(decoder, gpu.device))
    finally:
        HostCopy.wait = before
        del os.environ[dispatch.WAYS]


def _queued_earlier(gpu: PretendGpu) -> Any:
    """Returns what `HostCopy.wait` is on the device: one wait, and the copy is on the host."""

    def wait(copy: HostCopy) -> Tensor:
        gpu.waits["a copy that was queued earlier"] += 1
        there = copy._copy  # pyright: ignore[reportPrivateUsage]
        assert isinstance(there, PretendTensor)
        return there.held

    return wait


def _count(gpu: PretendGpu, decoder: Decoder) -> Waits:
    bank = random_members(decoder, TINY, MEMBERS)
    policy = random_policy(decoder, bank, LearningConfig(batch_tokens=BATCH_TOKENS))
    groups = _groups()
    limits = BatchLimits(rows=MEMBERS * ATTEMPTS, prefill_tokens=1024)
    gpu.waits.clear()
    policy.executor.sample(groups, limits, lambda row: None)
    sampling = Counter(gpu.waits)
    gpu.waits.clear()
    policy.learner.update(samples_of(groups))
    return Waits(sampling, Counter(gpu.waits))


def _groups() -> list[RowGroup]:
    draw = random.Random(0)
    groups: list[RowGroup] = []
    for slot in range(MEMBERS):
        prompt = tuple(draw.choices(range(TINY.vocabulary), k=PROMPT_TOKENS))
        params = SamplingParams(max_tokens=COMPLETION_TOKENS)
        rows = [Row(ATTEMPTS * slot + i, (slot, i), params, ()) for i in range(ATTEMPTS)]
        groups.append(RowGroup(slot, prompt, rows))
    return groups
