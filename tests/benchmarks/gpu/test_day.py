"""The GPU day at toy sizes: every part runs, on a CPU that takes a GPU's ways."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from benchmarks.cli import app
from benchmarks.gpu import step_7b
from benchmarks.gpu.real_run import run_real
from tests import tiny


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "lines"),
    [
        ("smoke", ["isolation of the sandbox", "ok low-rank products of decoding, rank 32", "ok AdamW"]),
        ("correct", ["ok toy, 8 rows, as a run", "ok toy, 8 rows, pages", "ok toy, the learner"]),
        pytest.param(
            "7b",
            ["step 2 of 4 teachers and 4 students", "step of one adapter", "over that of one adapter"],
            marks=pytest.mark.integration,
        ),
        ("sampler", ["transformers' generate", "without graphs", "with it over without"]),
    ],
)
def test_every_part_of_the_day_runs_at_toy_sizes(part: str, lines: list[str]) -> None:
    done = CliRunner().invoke(app, ["gpu", part, "--tiny"], catch_exceptions=False)
    assert done.exit_code == 0
    for line in lines:
        assert line in done.stdout


@pytest.mark.slow
@pytest.mark.integration
def test_the_real_run_says_what_it_reached_and_takes_the_steps_that_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    monkeypatch.setenv("RUN_SETTINGS", f"model.name={tiny.make(tmp_path)} model.prompts=completion model.rank=4")
    run_real("cpu", tiny=True)
    said = capsys.readouterr().out
    for line in ("step 3: seconds by phase", "held-out tasks, the start", "further steps that fit", "planned 0."):
        assert line in said
    steps = [json.loads(line) for line in (tmp_path / "out" / "run-metrics.jsonl").read_text().splitlines()]
    assert len(steps) == 3
    assert steps[-1]["held_out"]["problems"] == 2


def test_a_whole_step_is_as_large_as_the_time_allows() -> None:
    # A step takes four seconds and a share of 32 more, three times.
    assert step_7b.affordable(5.0, 8.0, 108) == 1.0
    assert step_7b.affordable(5.0, 8.0, 107) == 0.75
    assert step_7b.affordable(5.0, 5.0, 15) == 1.0
    # There is a step in any case.
    assert step_7b.affordable(5.0, 8.0, 1) == 0.125


def test_an_unknown_part_is_named_before_anything_runs() -> None:
    done = CliRunner().invoke(app, ["gpu", "smoke", "fly", "--tiny"])
    assert done.exit_code == 2
    assert "'fly' is not a part" in done.output
    assert "product" not in done.output


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_one_line_says_what_to_do() -> None:
    done = CliRunner().invoke(app, ["gpu", "smoke"])
    assert done.exit_code == 1
    assert done.output == "gpu: torch sees no CUDA device: add --tiny to try the code on a CPU\n"


@pytest.mark.slow
def test_a_gpu_day_needs_few_libraries() -> None:
    code = """
import os, sys
os.environ["REDQUEEN_WAYS"] = "gpu"
import benchmarks.cli, benchmarks.gpu.day
benchmarks.gpu.day.run_bench_gpu(["correct"], tiny=True, within=600)
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"torch", "transformers", "pydantic"} <= loaded
    # docs/GPU.md says which libraries have to be brought.
    assert loaded.isdisjoint({"numba", "llvmlite", "peft", "gguf", "radon", "matplotlib", "starlette", "uvicorn"})
