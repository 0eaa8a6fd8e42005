"""`python -m benchmarks gpu PART`: what a GPU does, each number beside what the model of docs/GPU.md predicts.

The base has random weights of the 7B shape, so nothing is downloaded. Every part should fit in ten minutes on an H200.
With `--tiny` the same code runs on a CPU in seconds; its numbers mean nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import torch
import transformers

from benchmarks.gpu import stand_ins
from benchmarks.gpu.clock import forget_peak, synchronize, timed
from benchmarks.gpu.counting import H200
from benchmarks.gpu.launches import PassCost, decode_step_cost, logprobs_cost, micro_batch_cost, sampling_cost
from benchmarks.gpu.output import host_waits, say, say_peak
from benchmarks.gpu.peers import compare_with_peers
from benchmarks.gpu.planned_memory import PlannedMemory
from benchmarks.gpu.shapes import SEVEN_B, TINY, Shape, random_decoder, random_members, random_policy
from benchmarks.gpu.table import print_table
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
from redqueen.config import LearningConfig
from redqueen.policy.kernels import dispatch
from redqueen.policy.learning.gradients import ForwardOptions, accumulate
from redqueen.policy.lora.adapter_bank import AdapterBank
from redqueen.policy.model.attention import SharedPrefix, SharedPrefixAttention
from redqueen.policy.model.decoder import Decoder
from redqueen.policy.policy import Policy
from redqueen.policy.sampling.continuous_batch import BatchLimits, RowGroup
from redqueen.policy.sampling.device_batch import DeviceBatch, PlacedPrompt
from redqueen.records import Sample, SamplingParams

MEMBERS = 8
# Of a measured decode step: how many are queued at a time, tokens of a row's room, and prompts of one pass.
STEPS = 4
SAMPLED = 16 * STEPS
PREFILLED = 16


class Day:
    """The parts of a GPU day, on one device."""

    def __init__(self, tiny: bool) -> None:
        self.tiny = tiny
        self.shape: Shape = TINY if tiny else SEVEN_B
        self.device = torch.device("cpu" if tiny else "cuda")
        self.draw = Draw(self.shape.vocabulary, scale=32 if tiny else 1)
        self.plan = PlannedMemory(self.shape, MEMBERS)

    def env(self) -> None:
        """What the machine does at most: products, copies and launches."""
        say("python, torch, transformers", f"{sys.version.split()[0]}, {torch.__version__}, {transformers.__version__}")
        if not self.tiny:
            free, total = torch.cuda.mem_get_info()
            say("GPU", torch.cuda.get_device_name())
            say("compute capability, GiB free of", (torch.cuda.get_device_capability(), free >> 30, total >> 30))
        size = 128 if self.tiny else 8192
        one, other = torch.randn(2, size, size, device=self.device, dtype=torch.bfloat16)
        spent = timed(lambda: one @ other, 10)
        say("product in bf16, TFLOP/s", round(2 * size**3 / spent.wall / 1e12, 1), H200.peak / 1e12)
        there = torch.empty(1 << (12 if self.tiny else 32), dtype=torch.uint8, device=self.device)
        here = torch.empty_like(there)
        spent = timed(lambda: here.copy_(there))
        say("copy, TB/s read and written", round(2 * here.numel() / spent.wall / 1e12, 3), H200.bandwidth / 1e12)
        x = torch.zeros(8, device=self.device)

        def launches() -> None:
            for _ in range(1000):
                x.add_(1)

        spent = timed(launches, 3)
        say("a launch, us of the device and of the host", (round(1e3 * spent.wall, 2), round(1e3 * spent.host, 2)), 2.5)

    def correct(self) -> None:
        """A GPU's ways against plain products: attention, and decode steps against one pass over the whole text.

        Raises BenchmarkError if they differ by more than rounding.
        """
        decoder, bank = self._base(layers=2)
        worst = _relative_errors_of_attention(decoder, self.device)
        for name, error in zip(("y", "dq", "dk", "dv"), worst, strict=True):
            say(f"attention of one call against plain products, {name}, relative", f"{error:.1e}", "below 2e-2")
        decoding = self._decoding_error(decoder, bank)
        say("decode steps against one pass, hidden states, relative", f"{decoding:.1e}", "below 5e-2")
        if not (max(worst) < 2e-2 and decoding < 5e-2):
            raise BenchmarkError("a GPU's ways do not compute what plain products do: see the relative errors above")

    def decode(self) -> None:
        """A decode step with its sampled tokens: seconds, tokens a second and waits, by rows."""
        decoder, bank = self._base()
        for rows, tokens in [(4, 12), (8, 12)] if self.tiny else [(8, 1024), (64, 1024), (128, 1024), (512, 1024)]:
            forget_peak()
            batch = _filled(decoder, bank, self.draw, rows, tokens)
            cost = decode_step_cost(self.shape, rows, tokens).of(self.shape.layers) + sampling_cost(self.shape, rows)
            with torch.inference_mode():
                spent = timed(lambda batch=batch, rows=rows: batch.sample_steps(rows), 5)
                with host_waits(self.device) as waits:
                    batch.sample_steps(rows)
            step = spent.wall / batch.steps
            host = spent.host / batch.steps
            say(
                f"{rows} rows of {tokens} tokens: ms a step", round(1e3 * step, 2), f"{1e3 * cost.seconds:.2f}, a graph"
            )
            say("   ms of the host, tokens a second", (round(1e3 * host, 2), round(rows / step)))
            say_peak(self.plan.sampling(rows, tokens, SAMPLED, PREFILLED * tokens))
            say("   the host's waits in four steps", dict(waits), {})
            del batch

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
        say("   model-FLOP use", round(useful / seconds / H200.peak, 3), "at least 0.45")

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
            samples += _samples_of(groups)
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
        say_peak(self.plan.sampling(rows, prompt, max(group.max_tokens for group in groups), limits.prefill_tokens))

    def _base(self, layers: int = 0) -> tuple[Decoder, AdapterBank]:
        shape = self.shape.with_layers(layers) if layers else self.shape
        start = time.perf_counter()
        decoder = random_decoder(shape, self.device)
        bank = random_members(decoder, shape, MEMBERS)
        synchronize()
        say(f"{shape.layers} random layers and {MEMBERS} members, seconds", round(time.perf_counter() - start, 1))
        return decoder, bank

    def _decoding_error(self, decoder: Decoder, bank: AdapterBank) -> float:
        """Returns the relative error of hidden states after decode steps, against one pass over the same tokens."""
        rows, tokens = 6, 12
        batch = _filled(decoder, bank, self.draw, rows, tokens)
        with torch.inference_mode():
            token_RS, _ = batch.sample_steps(rows).wait()
            stepped = batch.hidden_RH[:rows].float()
            errors: list[float] = []
            for row, written in enumerate(token_RS):
                # The last sampled token is not computed yet.
                ids = [*_prompt_of(row, tokens), *written[:-1]]
                attention = SharedPrefixAttention([SharedPrefix(0, len(ids))], self.device)
                ids_N = torch.tensor(ids, device=self.device)
                position_N = torch.arange(len(ids), device=self.device)
                whole = decoder.hidden(ids_N, position_N, attention, bank.rows([row % 4], [len(ids)]))[-1].float()
                errors.append(float((stepped[row] - whole).norm() / whole.norm()))
        return max(errors)


PARTS: dict[str, Callable[[Day], None]] = {
    "env": Day.env,
    "correct": Day.correct,
    "decode": Day.decode,
    "train": Day.train,
    "step": Day.step,
    "peers": Day.peers,
}
TABLE = "table"
"""The modelled table, which needs no GPU."""


def run_bench_gpu(parts: Sequence[str], *, tiny: bool) -> None:
    """Runs parts and prints their numbers. A tiny run takes a GPU's ways on the CPU.

    Raises BenchmarkError, before anything runs, if a part that is not tiny needs a GPU and there is none.
    """
    measured = [part for part in parts if part != TABLE]
    if measured and not tiny and not torch.cuda.is_available():
        raise BenchmarkError("torch sees no CUDA device: add --tiny to try the code on a CPU")
    for part in parts:
        if part == TABLE:
            print_table()
        else:
            _run(part, tiny)


def _run(part: str, tiny: bool) -> None:
    """Runs one part, tiny ones with a GPU's ways on the CPU."""
    before = dispatch.on_gpu
    if tiny:
        stand_ins.on_cpu()
        dispatch.on_gpu = lambda device: True
    try:
        PARTS[part](Day(tiny))
    finally:
        dispatch.on_gpu = before


def _prompt_of(row: int, tokens: int) -> tuple[int, ...]:
    return tuple((7 * row + 3 * place) % 500 for place in range(tokens))


def _filled(decoder: Decoder, bank: AdapterBank, draw: Draw, rows: int, tokens: int) -> DeviceBatch:
    """Returns a batch of rows with prompts of that many tokens, of four members in no order."""
    del draw
    batch = DeviceBatch(decoder, bank, rows, tokens + SAMPLED, SAMPLED, STEPS)
    prompts = [PlacedPrompt(row % 4, _prompt_of(row, tokens), [row]) for row in range(rows)]
    with torch.inference_mode():
        batch.admit(prompts, [("bench", row) for row in range(rows)], [SAMPLED] * rows)
        ordered = sorted(prompts, key=lambda prompt: prompt.slot)
        # A pass of 16 prompts takes no more memory than a run's.
        for start in range(0, rows, PREFILLED):
            batch.prefill(ordered[start : start + PREFILLED])
        batch.assign([row % 4 for row in range(rows)], [SamplingParams(max_tokens=SAMPLED)] * rows)
    return batch


def _relative_errors_of_attention(decoder: Decoder, device: torch.device) -> list[float]:
    """Returns the errors of y, dq, dk and dv of a GPU's attention, against plain products in fp32."""
    prefixes = [SharedPrefix(0, 40, (30, 7, 19)), SharedPrefix(96, 33, (50,)), SharedPrefix(179, 21, (9, 9))]
    heads = (decoder.heads, decoder.kv_heads, decoder.kv_heads)
    rows = prefixes[-1].end
    inputs = [torch.randn(rows, count, decoder.head_size, device=device, dtype=torch.bfloat16) for count in heads]
    dy = torch.randn_like(inputs[0])
    found: list[list[torch.Tensor]] = []
    for dtype in (torch.float32, torch.bfloat16):
        leaves = [x.detach().to(dtype).requires_grad_() for x in inputs]
        y = SharedPrefixAttention(prefixes, device)(0, *leaves)
        y.backward(dy.to(dtype))
        found.append([y.detach().float()])
        for leaf in leaves:
            assert leaf.grad is not None
            found[-1].append(leaf.grad.float())
    return [float((one - other).norm() / one.norm()) for one, other in zip(*found, strict=True)]


def _samples_of(groups: list[RowGroup]) -> list[Sample]:
    """Returns the rows as samples, every second one bad."""
    samples: list[Sample] = []
    for group in groups:
        for row in group.rows:
            samples.append(
                Sample(
                    member=f"m{group.slot}",
                    prompt_ids=group.prompt_ids,
                    token_ids=tuple(row.token_ids),
                    logprobs=tuple(row.logprobs),
                    advantage=1.0 - 2 * (row.index % 2),
                )
            )
    return samples


def _weights(shape: Shape) -> int:
    """Returns the weights of a base's layers."""
    head = shape.hidden // shape.heads
    attention = shape.hidden * head * (2 * shape.heads + 2 * shape.kv_heads)
    return shape.layers * (attention + 3 * shape.hidden * shape.intermediate)
