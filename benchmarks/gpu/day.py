"""`python -m benchmarks gpu PART`: ten minutes on a GPU, in parts, each number beside what is planned or wanted.

`day` runs all parts, each in a process of its own (`benchmarks.gpu.whole_day`); docs/GPU.md says what each is for. With
`--tiny` the same code runs on a CPU in toy sizes, with a GPU's ways; its numbers mean nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from benchmarks.gpu import stand_ins
from benchmarks.gpu.correctness import run_correct
from benchmarks.gpu.environment import say_environment
from benchmarks.gpu.real_run import run_on_cpu, run_real
from benchmarks.gpu.samplers import run_samplers
from benchmarks.gpu.shapes import BUNDLED, SEVEN_B, TINY
from benchmarks.gpu.smoke import run_smoke
from benchmarks.gpu.step_7b import Batches, planned_batches, run_steps
from benchmarks.gpu.whole_day import LIMITS, run_day
from benchmarks.timing import BenchmarkError
from redqueen.base.machine import set_library_defaults
from redqueen.base.optional import require
from redqueen.policy.kernels import dispatch

TESTS = Path(__file__).resolve().parents[2] / "tests" / "policy"
DAY = "day"
"""All parts, or those that are named after it, each in a process of its own."""


def _device(tiny: bool) -> torch.device:
    return torch.device("cpu" if tiny else "cuda")


def smoke(tiny: bool) -> None:
    """What the machine is, and each kernel alone."""
    say_environment(_device(tiny))
    run_smoke(_device(tiny), tiny=tiny)


def correct(tiny: bool) -> None:
    """Texts of two members in one batch against transformers in fp32."""
    if tiny:
        run_correct({"toy": TINY}, _device(tiny), (8,))
    else:
        run_correct({"bundled": BUNDLED, "7B": SEVEN_B}, _device(tiny), (8, 128))


def run(tiny: bool) -> None:
    """`overnight` on the bundled model."""
    run_real("cpu" if tiny else "cuda", tiny=tiny)


def step_7b(tiny: bool) -> None:
    """Whole steps at the shape of a 7B model."""
    if tiny:
        toy = Batches(rows=16, room=96, prefill=256, cache_tokens=0, tokens=256, checkpointing=False, planned=0)
        run_steps(TINY, _device(tiny), toy, most=0.03, scale=16)
    else:
        run_steps(SEVEN_B, _device(tiny), planned_batches(SEVEN_B, torch.cuda.mem_get_info()[0]))


def sampler(tiny: bool) -> None:
    """Which sampler, and which of its kernels."""
    if tiny:
        run_samplers(TINY, _device(tiny), (4, 8), prompt=12)
    else:
        run_samplers(SEVEN_B, _device(tiny), (64, 256, 512), prompt=256)


def tests(tiny: bool) -> None:
    """The tests that need a GPU; on a CPU they are collected and skipped. Raises BenchmarkError if one fails."""
    del tiny
    code = require("pytest", "dev", "the part tests").main(
        ["-q", "-m", "gpu", "-n0", "-p", "no:cacheprovider", str(TESTS)]
    )
    if code:
        raise BenchmarkError(f"pytest ended with {code}: see above")


def cpu(tiny: bool) -> None:
    """The first steps of the real run's seed, on the processors."""
    run_on_cpu(tiny=tiny)


PARTS: dict[str, Callable[[bool], None]] = {
    "smoke": smoke,
    "correct": correct,
    "run": run,
    "7b": step_7b,
    "sampler": sampler,
    "tests": tests,
    "cpu": cpu,
}
# These are what a user starts, and take a CPU's ways on a CPU.
_AS_A_USER = ("run", "tests", "cpu")


def run_bench_gpu(parts: Sequence[str], *, tiny: bool, within: float) -> None:
    """Runs parts and prints their numbers. A tiny run takes a GPU's ways on the CPU; a day ends after `within` seconds.

    Raises BenchmarkError, before anything runs, if a part that is not tiny needs a GPU and there is none.
    """
    if not tiny and not torch.cuda.is_available():
        raise BenchmarkError("torch sees no CUDA device: add --tiny to try the code on a CPU")
    if DAY in parts:
        run_day([part for part in parts if part in LIMITS], tiny=tiny, within=within)
        return
    set_library_defaults()
    for part in parts:
        if tiny and part not in _AS_A_USER:
            _with_gpu_ways(PARTS[part])
        else:
            PARTS[part](tiny)


def _with_gpu_ways(part: Callable[[bool], None]) -> None:
    """Runs a tiny part with a GPU's ways on the CPU."""
    threads = torch.get_num_threads()
    # Tensors are too small to share, and threads that wait for each other are slow on a busy machine.
    torch.set_num_threads(1)
    stand_ins.on_cpu()
    os.environ[dispatch.WAYS] = "gpu"
    try:
        part(True)
    finally:
        os.environ.pop(dispatch.WAYS, None)
        torch.set_num_threads(threads)
