"""`python -m benchmarks gpu PART`: what a GPU does, each number beside what the model of docs/GPU.md predicts.

The base has random weights of the 7B shape, so nothing is downloaded. `day` runs all parts, each in a process of its
own (`benchmarks.gpu.whole_day`). With `--tiny` the same code runs on a CPU in seconds; its numbers mean nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
import transformers

from benchmarks.gpu import stand_ins
from benchmarks.gpu.clock import forget_peak, synchronize, timed
from benchmarks.gpu.correctness import errors_of_texts
from benchmarks.gpu.counting import H200, Card, Device
from benchmarks.gpu.decoding import PREFILLED, SAMPLED, decoding_error, filled, profile
from benchmarks.gpu.launches import PassCost, decode_step_cost, logprobs_cost, micro_batch_cost, sampling_cost
from benchmarks.gpu.output import host_waits, say, say_peak
from benchmarks.gpu.peers import compare_with_peers
from benchmarks.gpu.planned_memory import PlannedMemory
from benchmarks.gpu.shapes import SEVEN_B, TINY, Shape, random_decoder, random_members, random_policy, samples_of
from benchmarks.gpu.smoke import errors_of_attention, run_smoke
from benchmarks.gpu.table import print_table
from benchmarks.gpu.whole_day import LIMITS, run_day
from benchmarks.gpu.whole_steps import Batches, planned_batches, run_steps
from benchmarks.gpu.workload import (
    ATTEMPT_PROMPT,
    ATTEMPTS,
    PROPOSAL_PROMPT,
    Draw,
    row_group,
    student_batch,
    teacher_batch,
)
from benchmarks.timing import BenchmarkError
from redqueen.base.machine import set_library_defaults
from redqueen.config import LearningConfig
from redqueen.policy.kernels import dispatch
from redqueen.policy.kernels.compiler import missing_for_kernels
from redqueen.policy.learning.gradients import ForwardOptions, accumulate
from redqueen.policy.lora.adapter_bank import AdapterBank
from redqueen.policy.model.decoder import Decoder
from redqueen.policy.policy import Policy
from redqueen.policy.sampling import recorded
from redqueen.policy.sampling.continuous_batch import BatchLimits, RowGroup
from redqueen.records import Sample

MEMBERS = 8


class Day:
    """The parts of a GPU day, on one device."""

    def __init__(self, tiny: bool) -> None:
        self.tiny = tiny
        self.shape: Shape = TINY if tiny else SEVEN_B
        self.device = torch.device("cpu" if tiny else "cuda")
        self.draw = Draw(self.shape.vocabulary, scale=32 if tiny else 1)
        self.plan = PlannedMemory(self.shape, MEMBERS)
        # What is predicted is for the card that is here.
        if not tiny:
            Card.here = Device(bandwidth=self._bandwidth(), peak=self._peak())

    def env(self) -> None:
        """What the machine does at most: products, copies and launches."""
        say("python, torch, transformers", f"{sys.version.split()[0]}, {torch.__version__}, {transformers.__version__}")
        if not self.tiny:
            free, total = torch.cuda.mem_get_info()
            say("GPU", torch.cuda.get_device_name())
            say("compute capability, GiB free of", (torch.cuda.get_device_capability(), free >> 30, total >> 30))
            say("environment", {name: os.environ.get(name) for name in ENVIRONMENT})
            say("to compile kernels, missing", missing_for_kernels(), [])
        say("product in bf16, TFLOP/s", round(self._peak() / 1e12, 1), f"{H200.peak / 1e12} on an H200")
        say("copy, TB/s read and written", round(self._bandwidth() / 1e12, 3), f"{H200.bandwidth / 1e12} on an H200")
        x = torch.zeros(8, device=self.device)

        def launches() -> None:
            for _ in range(1000):
                x.add_(1)

        spent = timed(launches, 3)
        say("a launch, us of the device and of the host", (round(1e3 * spent.wall, 2), round(1e3 * spent.host, 2)), 2.5)

    def _peak(self) -> float:
        """Returns the FLOPs a second of a large product in bf16."""
        size = 128 if self.tiny else 8192
        one, other = torch.randn(2, size, size, device=self.device, dtype=torch.bfloat16)
        return 2 * size**3 / timed(lambda: one @ other, 10).wall

    def _bandwidth(self) -> float:
        """Returns the bytes a second that a large copy reads and writes."""
        there = torch.empty(1 << (12 if self.tiny else 32), dtype=torch.uint8, device=self.device)
        here = torch.empty_like(there)
        return 2 * here.numel() / timed(lambda: here.copy_(there)).wall

    def smoke(self) -> None:
        """Each kernel alone. Raises BenchmarkError, at the end, if one does not compute what plain products do."""
        run_smoke(self.device, tiny=self.tiny)

    def correct(self) -> None:
        """A GPU's ways against plain products: attention, decode steps against one pass, texts against transformers.

        Raises BenchmarkError if they differ by more than rounding.
        """
        decoder, bank = self._base(layers=2)
        worst = errors_of_attention(decoder.heads, decoder.kv_heads, decoder.head_size, self.device)
        for name, error in zip(("y", "dq", "dk", "dv"), worst, strict=True):
            say(f"attention of one call against plain products, {name}, relative", f"{error:.1e}", "below 2e-2")
        decoding = decoding_error(decoder, bank)
        say("decode steps against one pass, hidden states, relative", f"{decoding:.1e}", "below 5e-2")
        good = max(worst) < 2e-2 and decoding < 5e-2
        del decoder, bank
        shape = self.shape.with_layers(2)
        for name, each, sizes in (
            ("Qwen2", shape, (8, 20) if self.tiny else (8, 64, 128, 512)),
            ("Qwen3", replace(shape, head_norms=True), (8,) if self.tiny else (64,)),
        ):
            for rows in sizes:
                forget_peak()
                ours, theirs = errors_of_texts(each, self.device, rows)
                say(
                    f"{name}, {rows} rows, log-probabilities against transformers in fp32, nats",
                    f"{ours:.1e}",
                    f"{theirs:.1e}, as transformers in bf16",
                )
                good = good and ours < 3 * theirs + 1e-4
        if not good:
            raise BenchmarkError("a GPU's ways do not compute what plain products do: see the relative errors above")

    def steps(self) -> None:
        """Three whole steps with changing rooms, two layers: a KV cache begins and ends in each."""
        tokens = 256 if self.tiny else 8192
        batches = Batches(16 if self.tiny else 128, 96 if self.tiny else 2048, tokens, tokens, False, 0)
        run_steps(self.shape.with_layers(2), self.device, MEMBERS, batches)

    def steps_7b(self) -> None:
        """The same with all layers and the batches that are planned for the card that is here."""
        if self.tiny:
            self.steps()
            return
        run_steps(self.shape, self.device, MEMBERS, planned_batches(self.plan, torch.cuda.mem_get_info()[0]))

    def decode(self) -> None:
        """A decode step with its sampled tokens: seconds, tokens a second and waits, by rows."""
        decoder, bank = self._base()
        sizes = [(4, 12), (8, 12)] if self.tiny else [(rows, 1024) for rows in (8, 16, 32, 64, 128, 192, 320, 512)]
        for rows, tokens in sizes:
            plan = self.plan.sampling(rows, tokens, SAMPLED, PREFILLED * tokens)
            if not self.tiny and plan > torch.cuda.mem_get_info()[1]:
                say(f"{rows} rows of {tokens} tokens", "left out: more than the card has")
                continue
            self._decode(decoder, bank, rows, tokens, plan)
        # The same without graphs. Whether they compute the same is a matter of `correct`.
        before = os.environ.get(recorded.VARIABLE, "")
        os.environ[recorded.VARIABLE] = "off"
        rows, tokens = sizes[min(3, len(sizes) - 1)]
        batch, _ = filled(decoder, bank, rows, tokens)
        with torch.inference_mode():
            spent = timed(lambda: batch.sample_steps(rows), 5)
            say(f"{rows} rows of {tokens} tokens without graphs: ms a step", round(1e3 * spent.wall / batch.steps, 2))
            profile(lambda: batch.sample_steps(rows))
        os.environ[recorded.VARIABLE] = before

    def _decode(self, decoder: Decoder, bank: AdapterBank, rows: int, tokens: int, plan: int) -> None:
        """Measures steps of so many rows."""
        forget_peak()
        batch, prefill = filled(decoder, bank, rows, tokens)
        cost = decode_step_cost(self.shape, rows, tokens).of(self.shape.layers) + sampling_cost(self.shape, rows)
        with torch.inference_mode():
            spent = timed(lambda: batch.sample_steps(rows), 5)
            with host_waits(self.device) as waits:
                batch.sample_steps(rows)
        step = spent.wall / batch.steps
        host = spent.host / batch.steps
        say(f"{rows} rows of {tokens} tokens: ms a step", round(1e3 * step, 2), f"{1e3 * cost.seconds:.2f}, a graph")
        say("   ms of the host, tokens a second", (round(1e3 * host, 2), round(rows / step)))
        say("   prompt tokens a second, compilation included", round(rows * tokens / prefill))
        say_peak(plan)
        say("   the host's waits in four steps", dict(waits), {})

    def train(self) -> None:
        """A micro-batch of attempts and one of proposals: microseconds a row and model-FLOP use."""
        decoder, bank = self._base()
        tokens = 256 if self.tiny else 8192
        for name, make in (("attempts", student_batch), ("proposals", teacher_batch)):
            groups = make(self.draw, tokens)
            rows = sum(group.tokens for group in groups)
            for checkpointing in (False, True):
                forget_peak()
                gradients = bank.gradients()
                options = ForwardOptions(1.0, checkpointing)
                spent = timed(
                    lambda groups=groups, gradients=gradients, options=options: accumulate(
                        decoder, bank, gradients, groups, options
                    ),
                    3,
                    1,
                )
                cost = micro_batch_cost(self.shape, groups, checkpointing=checkpointing)
                self._say_training(f"{name}, {rows} rows, checkpointing {checkpointing}", rows, spent.wall, cost)
                say_peak(self.plan.training(rows, checkpointing=checkpointing, moments=False))

    def _say_training(self, name: str, rows: int, seconds: float, cost: PassCost) -> None:
        head = logprobs_cost(self.shape, rows)
        modelled = cost.of(self.shape.layers) + head
        useful = 4 * rows * _weights(self.shape)
        say(f"{name}: us a row", round(1e6 * seconds / rows, 1), f"{1e6 * modelled.seconds / rows:.1f}")
        say("   share of the card's products", round(useful / seconds / Card.here.peak, 3), "at least 0.45")

    def step(self) -> None:
        """Sampling and an update as a run does them, without the sandbox: tokens and rows a second, mismatch."""
        decoder, bank = self._base()
        budget = 256 if self.tiny else 8192
        policy = random_policy(decoder, bank, LearningConfig(lr=1e-5, batch_tokens=budget))
        samples: list[Sample] = []
        proposals = [row_group(self.draw, i % 4, PROPOSAL_PROMPT, 1, i) for i in range(4 if self.tiny else 64)]
        attempts = [
            row_group(self.draw, 4 + i % 4, ATTEMPT_PROMPT, ATTEMPTS, 64 + i) for i in range(2 if self.tiny else 64)
        ]
        for name, groups in (("proposals", proposals), ("attempts", attempts)):
            self._sample(policy, name, groups)
            samples += samples_of(groups)
        forget_peak()
        start = time.perf_counter()
        with host_waits(self.device) as waits:
            updates = policy.learner.update(samples)
            synchronize()
        seconds = time.perf_counter() - start
        rows = sum(len(sample.prompt_ids) + len(sample.token_ids) for sample in samples)
        say("update: seconds, rows a second", (round(seconds, 2), round(rows / seconds)))
        say("   the host's waits", dict(waits))
        say_peak(self.plan.training(budget, checkpointing=False, moments=True))
        say("logprob_gap", round(max(update.logprob_gap for update in updates), 5), "below 0.05")

    def peers(self) -> None:
        """The same work by PEFT and by vLLM, where they are installed."""
        compare_with_peers(self.shape, self.device, tiny=self.tiny)

    def _sample(self, policy: Policy, name: str, groups: list[RowGroup]) -> None:
        """Samples these groups as a run does."""
        forget_peak()
        limits = BatchLimits(16 if self.tiny else 512, 16384)
        start = time.perf_counter()
        with host_waits(self.device) as waits:
            policy.executor.sample(groups, limits, lambda row: None)
            synchronize()
        seconds = time.perf_counter() - start
        tokens = sum(len(row.token_ids) for group in groups for row in group.rows)
        say(f"{name}: tokens, seconds, tokens a second", (tokens, round(seconds, 2), round(tokens / seconds)))
        say("   the host's waits", sum(waits.values()))
        rows = min(limits.rows, sum(len(group.rows) for group in groups))
        prompt = max(len(group.prompt_ids) for group in groups)
        sampled = max(group.max_tokens for group in groups)
        say_peak(self.plan.sampling(rows, prompt, sampled, limits.prefill_tokens, moments=True))

    def _base(self, layers: int = 0) -> tuple[Decoder, AdapterBank]:
        shape = self.shape.with_layers(layers) if layers else self.shape
        start = time.perf_counter()
        decoder = random_decoder(shape, self.device)
        bank = random_members(decoder, shape, MEMBERS)
        synchronize()
        say(f"{shape.layers} random layers and {MEMBERS} members, seconds", round(time.perf_counter() - start, 1))
        return decoder, bank


PARTS: dict[str, Callable[[Day], None]] = {
    "env": Day.env,
    "smoke": Day.smoke,
    "correct": Day.correct,
    "steps": Day.steps,
    "steps-7b": Day.steps_7b,
    "decode": Day.decode,
    "train": Day.train,
    "step": Day.step,
    "peers": Day.peers,
}
TABLE = "table"
"""The modelled table, which needs no GPU."""
DAY = "day"
"""All parts, or those that are named after it, each in a process of its own."""
_CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
ENVIRONMENT = ("PYTORCH_ALLOC_CONF", "REDQUEEN_GRAPHS", "REDQUEEN_KERNELS", *_CACHES)


def run_bench_gpu(parts: Sequence[str], *, tiny: bool, within: float = float("inf")) -> None:
    """Runs parts and prints their numbers. A tiny run takes a GPU's ways on the CPU; a day ends after `within` seconds.

    Raises BenchmarkError, before anything runs, if a part that is not tiny needs a GPU and there is none.
    """
    measured = [part for part in parts if part != TABLE]
    if measured and not tiny and not torch.cuda.is_available():
        raise BenchmarkError("torch sees no CUDA device: add --tiny to try the code on a CPU")
    if DAY in parts:
        run_day([part for part in parts if part in LIMITS], tiny=tiny, within=within)
        return
    set_library_defaults()
    for part in parts:
        if part == TABLE:
            print_table()
        else:
            _run(part, tiny)


def _run(part: str, tiny: bool) -> None:
    """Runs one part, tiny ones with a GPU's ways on the CPU."""
    threads = torch.get_num_threads()
    if tiny:
        # Tensors are too small to share, and threads that wait for each other are slow on a busy machine.
        torch.set_num_threads(1)
        stand_ins.on_cpu()
        os.environ[dispatch.WAYS] = "gpu"
    try:
        PARTS[part](Day(tiny))
    finally:
        os.environ.pop(dispatch.WAYS, None)
        torch.set_num_threads(threads)


def _weights(shape: Shape) -> int:
    """Returns the weights of a base's layers."""
    head = shape.hidden // shape.heads
    attention = shape.hidden * head * (2 * shape.heads + 2 * shape.kv_heads)
    return shape.layers * (attention + 3 * shape.hidden * shape.intermediate)
