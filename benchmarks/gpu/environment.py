"""What a machine with a GPU is, and what it does at most: products, copies and launches."""

from __future__ import annotations

import os
import platform
from functools import partial

import torch
import transformers

from benchmarks.gpu.clock import timed
from benchmarks.gpu.output import say
from redqueen.engine.kernels.dispatch import missing_for_kernels
from redqueen.engine.kernels.flash import flash_takes_pages
from redqueen.jail import PROCESS, probe
from redqueen.jail.probes import cores

_NAMES = ("PYTORCH_ALLOC_CONF", "REDQUEEN_GRAPHS", "REDQUEEN_KERNELS", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def say_environment(device: torch.device) -> None:
    """Prints what is there; sizes are toys on a CPU."""
    on_gpu = device.type == "cuda"
    say("python, torch, transformers", (platform.python_version(), torch.__version__, transformers.__version__))
    say("processor cores", cores())
    if on_gpu:
        free, total = torch.cuda.mem_get_info()
        say("GPU", torch.cuda.get_device_name())
        say("compute capability, GiB free, in all", (torch.cuda.get_device_capability(), free >> 30, total >> 30))
    say("environment", {name: os.environ.get(name) for name in _NAMES})
    say("to compile kernels, missing", missing_for_kernels(), "nothing")
    say("flash attention reads pages", flash_takes_pages())
    # A run judges programs that a model wrote, and refuses to where they cannot be isolated.
    tier, _ = probe()
    say("isolation of the sandbox", tier, f"anything but {PROCESS}")

    size = 8192 if on_gpu else 128
    one, other = torch.randn(2, size, size, device=device, dtype=torch.bfloat16)
    rate = 2e-12 * size**3 / timed(lambda: one @ other, 10)
    say("product in bf16, TFLOP/s", round(rate, 1), "790 on an H100 or H200")
    there = torch.empty(1 << (32 if on_gpu else 12), dtype=torch.uint8, device=device)
    here = torch.empty_like(there)
    moved = 2e-12 * here.numel() / timed(lambda: here.copy_(there))
    say("copy, TB/s read and written", round(moved, 3), "3.0 on an H100, 4.3 on an H200")
    x = torch.zeros(8, device=device)
    say("a launch, us", round(1e3 * timed(partial(_launch, x, 1000), 3), 2), "2.5")


def _launch(x: torch.Tensor, times: int) -> None:
    for _ in range(times):
        x.add_(1)
