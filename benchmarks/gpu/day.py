"""`python -m benchmarks gpu PART`: ten minutes on a GPU, in parts, each number beside what is planned or wanted.

`day` runs all parts, each in a process of its own (`benchmarks.gpu.whole_day`); docs/GPU.md says what each is for. With
`--tiny` the same code runs on a CPU in toy sizes, with a GPU's ways; its numbers mean nothing.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.gpu import stand_ins
from benchmarks.gpu.whole_day import run_day
from benchmarks.timing import BenchmarkError
from redqueen.base.machine import set_library_defaults
from redqueen.base.optional import require
from redqueen.engine.kernels import dispatch

PARTS = {
    "smoke": "benchmarks.gpu.smoke:part",
    "correct": "benchmarks.gpu.correctness:part",
    "run": "benchmarks.gpu.real_run:part",
    "7b": "benchmarks.gpu.step_7b:part",
    "sampler": "benchmarks.gpu.samplers:part",
    "tests": "benchmarks.gpu.day:tests_part",
    "cpu": "benchmarks.gpu.real_run:cpu_part",
}
"""The function of each part. It is imported when it runs: what one part lacks must not keep the others from running."""
DAY = "day"
"""All parts, or those that are named after it, each in a process of its own."""
TESTS = Path(__file__).resolve().parents[2] / "tests" / "policy"
# These are what a user starts, and take a CPU's ways on a CPU.
_AS_A_USER = ("run", "tests", "cpu")


def run_bench_gpu(parts: Sequence[str], *, tiny: bool, within: float) -> None:
    """Runs parts and prints their numbers. A tiny run takes a GPU's ways on the CPU; a day ends after `within` seconds.

    Raises BenchmarkError, before anything runs, if a part that is not tiny needs a GPU and there is none.
    """
    # torch reads some of them when it first asks for a GPU.
    set_library_defaults()
    if not tiny and not torch.cuda.is_available():
        raise BenchmarkError("torch sees no CUDA device: add --tiny to try the code on a CPU")
    if DAY in parts:
        run_day([part for part in parts if part != DAY], tiny=tiny, within=within)
        return
    for part in parts:
        if tiny and part not in _AS_A_USER:
            _with_gpu_ways(part)
        else:
            _run(part, tiny=tiny)


def tests_part(*, tiny: bool) -> None:
    """The tests that need a GPU; on a CPU they are collected and skipped. Raises BenchmarkError if one fails."""
    del tiny
    pytest = require("pytest", "dev", "the part tests")
    # To import the others would take longer than these tests.
    files = [str(file) for file in sorted(TESTS.rglob("test_*.py")) if "pytest.mark.gpu" in file.read_text()]
    code = pytest.main(["-q", "-m", "gpu", "-p", "no:cacheprovider", *files])
    if code:
        raise BenchmarkError(f"pytest ended with {int(code)}: see above")


def _run(part: str, *, tiny: bool) -> None:
    module, _, function = PARTS[part].partition(":")
    getattr(importlib.import_module(module), function)(tiny=tiny)


def _with_gpu_ways(part: str) -> None:
    """Runs a tiny part with a GPU's ways on the CPU."""
    threads = torch.get_num_threads()
    # Tensors are too small to share, and threads that wait for each other are slow on a busy machine.
    torch.set_num_threads(1)
    stand_ins.on_cpu()
    os.environ[dispatch.WAYS] = "gpu"
    try:
        _run(part, tiny=True)
    finally:
        os.environ.pop(dispatch.WAYS, None)
        torch.set_num_threads(threads)
