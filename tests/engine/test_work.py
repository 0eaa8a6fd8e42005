"""What a policy computed is counted exactly, and a device's peak is found by its name."""

from __future__ import annotations

import pytest

from redqueen.config import LearningConfig, SamplingConfig
from redqueen.engine.meter import peak_flops
from redqueen.engine.work import Work
from redqueen.run.recording.metrics import step_metrics
from tests.engine.conftest import Build
from tests.engine.requests import request
from tests.engine.samples import samples
from tests.run.recording.steps import record


def test_sampling_and_training_are_counted_between_two_calls(tiny_policy: Build) -> None:
    policy = tiny_policy(sampling=SamplingConfig(batch_rows=2), learning=LearningConfig(lr=0.0))
    # Two rows share the prompt of 4 tokens, so it is computed once. The third waits until both have ended.
    completions = policy.sample([request("a", "xxxx", 0, 6), request("a", "xxxx", 1, 6), request("b", "yy", 2, 3)])
    tokens = sum(len(one.token_ids) for one in completions)
    prompts = len(completions[0].prompt_ids) + len(completions[2].prompt_ids)
    rows = samples("a")
    policy.update(rows)
    work = policy.take_work()
    assert (work.sampled_tokens, work.prompt_tokens) == (tokens, prompts)
    assert work.decode_steps == max(len(one.token_ids) for one in completions[:2]) + len(completions[2].token_ids)
    assert work.trained_tokens == sum(len(sample.token_ids) for sample in rows)
    # Four samples of two prompts; a sample's last token is predicted and not computed.
    assert work.trained_rows == 3 + 4 + sum(len(sample.token_ids) - 1 for sample in rows)
    layers = sum(site.weight.numel() for site in policy.base.decoder.sites)
    head = policy.base.decoder.head.weight.numel()
    assert work.flops == (
        2 * layers * (tokens + prompts)
        + 2 * head * tokens
        + 4 * layers * work.trained_rows
        + 4 * head * work.trained_tokens
    )
    assert work.sampling_s > 0
    assert work.training_s > 0
    assert work.host_bytes > 0
    assert work.device_bytes is None
    assert policy.take_work().sampled_tokens == 0


def test_a_phases_throughput_is_by_its_own_seconds() -> None:
    work = Work(
        sampled_tokens=300,
        prompt_tokens=40,
        decode_steps=20,
        sampling_s=2.0,
        flops=1e12,
        peak_flops=1e13,
        device_bytes=3 << 30,
        host_bytes=1 << 29,
    )
    line = step_metrics(record(1, work={"play": work, "evolve": Work()}))
    assert line["throughput"] == {
        "play": {
            "sampled_per_second": 150.0,
            "prompt_tokens": 40,
            "decode_rows": 15.0,
            "trained_rows_per_second": None,
            "mfu": 0.05,
            "device_gib": 3.0,
            "host_gib": 0.5,
        }
    }


def test_later_work_is_added_and_peaks_are_kept() -> None:
    work = Work(sampled_tokens=1, device_bytes=5, host_bytes=7)
    work.add(Work(sampled_tokens=2, device_bytes=3, host_bytes=9, peak_flops=1.0))
    assert work == Work(sampled_tokens=3, device_bytes=5, host_bytes=9, peak_flops=1.0)


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H200", 989e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA L4", 121e12),
        ("NVIDIA L40", None),
        ("NVIDIA GeForce RTX 4090", 165.2e12),
        ("NVIDIA RTX A4000", None),
    ],
)
def test_the_peak_of_a_device(name: str, peak: float | None) -> None:
    assert peak_flops(name) == peak
