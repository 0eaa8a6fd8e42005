"""The GPU day at toy sizes: every part runs, on a CPU that takes a GPU's ways."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from typer.testing import CliRunner

from benchmarks.cli import app


@pytest.mark.parametrize(
    ("part", "lines"),
    [
        ("env", ["product in bf16"]),
        ("smoke", ["ok low-rank products of decoding, rank 8", "ok heads and the KV cache, with norms", "ok AdamW"]),
        ("correct", ["products, dk", "decode steps against one pass", "Qwen2, 20 rows", "Qwen3, 8 rows"]),
        ("steps", ["after step 3: GB allocated"]),
        ("decode", ["8 rows of 12 tokens: ms a step", "waits", "peak GiB: not measured   [planned"]),
        pytest.param("train", ["attempts", "proposals", "share of the card's products"], marks=pytest.mark.slow),
        ("step", ["tokens a second", "update: seconds", "logprob_gap"]),
        pytest.param("peers", ["8 members over one", "PEFT, one adapter", "vLLM"], marks=pytest.mark.slow),
    ],
)
def test_every_part_of_the_day_runs_at_toy_sizes(part: str, lines: list[str]) -> None:
    done = CliRunner().invoke(app, ["gpu", part, "--tiny"], catch_exceptions=False)
    assert done.exit_code == 0
    for line in lines:
        assert line in done.stdout


def test_an_unknown_part_is_named_before_anything_runs() -> None:
    done = CliRunner().invoke(app, ["gpu", "env", "fly", "--tiny"])
    assert done.exit_code == 2
    assert "'fly' is not a part" in done.output
    assert "product" not in done.output


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_one_line_says_what_to_do() -> None:
    done = CliRunner().invoke(app, ["gpu", "env"])
    assert done.exit_code == 1
    assert done.output == "gpu: torch sees no CUDA device: add --tiny to try the code on a CPU\n"


@pytest.mark.slow
def test_a_gpu_day_needs_few_libraries() -> None:
    code = """
import os, sys
os.environ["REDQUEEN_WAYS"] = "gpu"
import benchmarks.cli, benchmarks.gpu.day
benchmarks.gpu.day.run_bench_gpu(["correct"], tiny=True)
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"torch", "transformers", "pydantic"} <= loaded
    # docs/GPU.md says which libraries have to be brought.
    assert loaded.isdisjoint({"numba", "llvmlite", "peft", "gguf", "radon", "matplotlib", "starlette", "uvicorn"})
