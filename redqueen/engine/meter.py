"""Measures what a policy computes while it samples and trains."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

import torch

from redqueen.base.machine import peak_memory
from redqueen.engine.model.forward import Forward
from redqueen.engine.work import Work

# Dense bf16 products with fp32 sums, in FLOP/s, by a part of the name that torch gives the device; the first that fits
# counts. From NVIDIA's data sheets, where a number "with sparsity" is twice this.
_PEAK_FLOPS = (
    ("B200", 2.25e15),
    ("H200", 989e12),
    ("H100 NVL", 835e12),
    ("H100 PCIe", 756e12),
    ("H100", 989e12),
    ("A100", 312e12),
    ("L40S", 362e12),
    ("A40", 149.7e12),
    ("A30", 165e12),
    ("L4", 121e12),
    ("RTX 5090", 209.5e12),
    ("RTX 4090", 165.2e12),
    ("RTX 3090", 71e12),
)


def peak_flops(name: str) -> float | None:
    """Returns how many FLOPs in bf16 a device of this name can do in a second; None if it is not in the table."""
    # Whole words: "L4" must not be found in "L40".
    padded = f" {name.replace('-', ' ')} "
    return next((peak for device, peak in _PEAK_FLOPS if f" {device} " in padded), None)


class Meter:
    """Counts the work of one policy."""

    def __init__(self, decoder: Forward) -> None:
        self.device = decoder.device
        # Weights that each token meets. Attention over earlier tokens and the adapters are left out: some percent.
        self.layers = sum(site.weights for site in decoder.sites)
        self.head = decoder.head_weights
        self.peak: float | None = None
        if self.device.type == "cuda" and decoder.dtype == torch.bfloat16:
            self.peak = peak_flops(torch.cuda.get_device_name(self.device))
        self.work = Work()

    @contextmanager
    def sampling(self) -> Generator[Work]:
        """Measures the time of sampling. The caller adds its counts to what this yields."""
        work = Work()
        start = time.perf_counter()
        yield work
        work.sampling_s = time.perf_counter() - start
        # A forward pass multiplies and adds once for each weight.
        work.flops = 2.0 * self.layers * (work.prompt_tokens + work.sampled_tokens)
        work.flops += 2.0 * self.head * work.sampled_tokens
        self.work.add(work)

    @contextmanager
    def training(self, before: float) -> Generator[Work]:
        """Measures the time of training, of which `before` seconds were spent before.

        The caller adds its counts to what this yields.
        """
        work = Work()
        start = time.perf_counter()
        yield work
        work.training_s = before + time.perf_counter() - start
        # The base is frozen, so the backward pass has only the gradients of the inputs, not those of the weights.
        work.flops = 4.0 * self.layers * work.trained_rows + 4.0 * self.head * work.trained_tokens
        self.work.add(work)

    def take(self) -> Work:
        """Returns the work since the last call, and begins anew."""
        work = self.work
        self.work = Work()
        work.peak_flops = self.peak
        work.host_bytes = peak_memory()
        if self.device.type == "cuda":
            work.device_bytes = torch.cuda.max_memory_allocated(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
        return work
