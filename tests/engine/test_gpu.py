"""The same code on a GPU: skipped where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.gpu.correctness import run_correct
from benchmarks.gpu.shapes import BUNDLED
from redqueen.config import EngineSettings, ModelConfig
from redqueen.engine.model.base import load
from redqueen.engine.policy import open_policy
from redqueen.records import Prompt, Request, Sample, SamplingParams
from tests import tiny
from tests.reference import noisy

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def test_sampling_and_learning_on_a_gpu_agree_with_the_cpu(tmp_path: Path) -> None:
    folder = str(tiny.make(tmp_path))
    found = {}
    for device in ("cpu", "cuda"):
        model = ModelConfig(name=folder, dtype="float32", device=device, threads=1, workers=1, rank=4, alpha=8.0)
        policy = open_policy(load(model), EngineSettings(model), 2)
        for i, name in enumerate("ab"):
            policy.join(name, noisy(policy.adapters, i))
        requests = [
            Request(member=m, prompt=Prompt("x" * (3 + i), ()), sampling=SamplingParams(max_tokens=8), seed=(i,))
            for i, m in enumerate("abba")
        ]
        rows = policy.sample(requests)
        updates = policy.update(
            [
                Sample(
                    member=q.member, prompt_ids=r.prompt_ids, token_ids=r.token_ids, logprobs=r.logprobs, advantage=1.0
                )
                for q, r in zip(requests, rows, strict=True)
            ]
        )
        policy.learner.load_state("a", policy.state("a"))
        found[device] = ([r.token_ids for r in rows], [u.grad_norm for u in updates])
    assert found["cpu"][0] == found["cuda"][0]
    assert found["cpu"][1] == pytest.approx(found["cuda"][1], rel=1e-3)


def test_in_bf16_texts_and_an_update_of_them_agree_with_transformers() -> None:
    # Flash attention forward and backward, recorded decode steps and their low-rank products, compiled operations.
    run_correct({"bundled": BUNDLED}, torch.device("cuda"), (8,))
