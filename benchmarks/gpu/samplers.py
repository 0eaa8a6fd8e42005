"""The part `sampler`: decoded tokens a second of our sampler, with and without each of its kernels, and of others.

The base has random weights. Ours decodes rows of four members in no order; transformers' `generate` decodes as many
rows with the same prompts, without any adapter.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch

from benchmarks.gpu.clock import device_for, forget_peak, synchronize, timed
from benchmarks.gpu.output import folder, say
from benchmarks.gpu.shapes import SEVEN_B, TINY, Shape, random_members, random_model
from redqueen.engine.kernels import dispatch
from redqueen.engine.kernels.dispatch import GpuKernels
from redqueen.engine.lora import adapter_bank
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.lora.products import PaddedBmm
from redqueen.engine.model.decoder import Decoder, decoder_of
from redqueen.engine.sampling import decode_step, recorded
from redqueen.engine.sampling.decode_step import WrittenApart, reads_by_flash
from redqueen.engine.sampling.device_batch import DeviceBatch
from redqueen.engine.sampling.tokens import Row, RowGroup
from redqueen.records import SamplingParams

MEMBERS = 4
# How many steps are queued at a time, tokens of a row's room beyond its prompt, and prompts of one pass.
_STEPS = 4
_SAMPLED = 16 * _STEPS
_PREFILLED = 16
# Tokens that transformers writes; its seconds for the prompts are measured by themselves and subtracted.
_THEIRS = 33


def part(*, tiny: bool) -> None:
    """Measures at the shape of a 7B model."""
    if tiny:
        run_samplers(TINY, device_for(tiny=tiny), (4, 8), prompt=12)
    else:
        run_samplers(SEVEN_B, device_for(tiny=tiny), (64, 256, 512), prompt=256)


def run_samplers(shape: Shape, device: torch.device, sizes: tuple[int, ...], prompt: int) -> None:
    """Measures batches of so many rows with prompts of so many tokens."""
    model = random_model(shape, device)
    decoder = decoder_of(model, pack=False)
    bank = random_members(decoder, shape, MEMBERS)
    for rows in sizes:
        forget_peak()
        rate = _ours(decoder, bank, rows, prompt)
        say(f"{rows} rows of {prompt} tokens: tokens a second, ms a step", _with_ms(rate, rows))
        theirs = _generate(model, rows, prompt)
        say("   transformers' generate, one model: tokens a second, ms a step", _with_ms(theirs, rows))
        say("   ours over theirs", round(rate / theirs, 2))
    forget_peak()
    middle = sizes[len(sizes) // 2]
    whole = _ours(decoder, bank, middle, prompt)
    for name, without in WITHOUT.items():
        with without():
            rate = _ours(decoder, bank, middle, prompt)
        say(f"{middle} rows without {name}: tokens a second", round(rate), f"with it {whole:.0f}")
        say("   with it over without", round(whole / rate, 3))
    _profile(decoder, bank, middle, prompt)


def _with_ms(rate: float, rows: int) -> tuple[int, float]:
    return round(rate), round(1e3 * rows / rate, 2)


def _ours(decoder: Decoder, bank: AdapterBank, rows: int, prompt: int) -> float:
    """Returns the tokens that our sampler decodes in a second."""
    batch = _filled(decoder, bank, rows, prompt)
    with torch.inference_mode():
        return batch.steps * rows / timed(lambda: batch.sample_steps(rows), 5)


def _filled(decoder: Decoder, bank: AdapterBank, rows: int, tokens: int) -> DeviceBatch:
    """Returns a batch of rows with prompts of so many tokens, of members in no order."""
    batch = DeviceBatch(decoder, bank, rows, tokens + _SAMPLED, _SAMPLED, _STEPS)
    params = SamplingParams(max_tokens=_SAMPLED)
    sampled = [Row(row, ("bench", row), params, ()) for row in range(rows)]
    groups = [RowGroup(one.index % MEMBERS, _prompt(one.index, tokens), [one]) for one in sampled]
    admitted = [(group, [row]) for row, group in enumerate(groups)]
    with torch.inference_mode():
        batch.admit(admitted)
        ordered = sorted(admitted, key=lambda placed: placed[0].slot)
        # A pass of 16 prompts takes no more memory than a run's.
        for start in range(0, rows, _PREFILLED):
            batch.prefill(ordered[start : start + _PREFILLED])
        batch.assign([row % MEMBERS for row in range(rows)], [params] * rows)
    return batch


def _prompt(row: int, tokens: int) -> tuple[int, ...]:
    return tuple((7 * row + 3 * place) % 500 for place in range(tokens))


def _generate(model: Any, rows: int, prompt: int) -> float:
    """Returns the tokens that transformers decodes in a second, without any adapter."""
    ids = torch.tensor([_prompt(row, prompt) for row in range(rows)], device=model.device)
    seconds: list[float] = []
    for tokens in (1, 1, _THEIRS):
        synchronize()
        start = time.perf_counter()
        model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            top_k=0,
            min_new_tokens=tokens,
            max_new_tokens=tokens,
            pad_token_id=0,
        )
        synchronize()
        seconds.append(time.perf_counter() - start)
    return (_THEIRS - 1) * rows / (seconds[2] - seconds[1])


@contextmanager
def _without_graphs() -> Generator[None]:
    with mock.patch.dict(os.environ, {recorded.VARIABLE: "off"}):
        yield


@contextmanager
def _without_low_rank_kernels() -> Generator[None]:
    """Without them a step cannot be recorded either: compare with the steps without graphs."""

    def padded(factors: object, slots: int, rows: int, device: torch.device) -> PaddedBmm:
        del factors, slots, rows
        return PaddedBmm(device)

    with mock.patch.object(adapter_bank, "decoding_products", padded):
        yield


@contextmanager
def _without_heads_kernel() -> Generator[None]:
    def apart(cache: Any, rows: int, group: int) -> WrittenApart:
        return WrittenApart(cache, rows, group, flash=reads_by_flash(cache))

    with mock.patch.object(decode_step, "cached_attention", apart):
        yield


@contextmanager
def _without_compiled_operations() -> Generator[None]:
    """Norms, rotation, SwiGLU and drawing by torch's operations as they are; the Triton kernels stay."""
    with mock.patch.object(dispatch, "_GPU", GpuKernels(lambda function: function)):
        yield


@contextmanager
def _without_any_kernel() -> Generator[None]:
    """The plain path: torch's operations alone, without flash attention."""
    with ExitStack() as stack:
        stack.enter_context(_without_low_rank_kernels())
        stack.enter_context(mock.patch.dict(os.environ, {dispatch.VARIABLE: "torch"}))
        stack.enter_context(mock.patch.object(decode_step, "cached_attention", _plain_attention))
        yield


def _plain_attention(cache: Any, rows: int, group: int) -> WrittenApart:
    return WrittenApart(cache, rows, group, flash=False)


WITHOUT = {
    "graphs": _without_graphs,
    "graphs and Triton's low-rank products": _without_low_rank_kernels,
    "Triton's kernel for the heads": _without_heads_kernel,
    "compiled norms and SwiGLU": _without_compiled_operations,
    "any kernel of ours, graphs and flash attention": _without_any_kernel,
}
"""What is left out, one at a time; all Triton kernels are among it, and the last one leaves torch alone."""


def _profile(decoder: Decoder, bank: AdapterBank, rows: int, prompt: int) -> None:
    """Writes the kernels of four steps, and their times, to a file among the results."""
    place = folder()
    if place is None:
        return
    batch = _filled(decoder, bank, rows, prompt)
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    # Kernels of a recorded step have no names of ours, so steps are launched.
    with _without_graphs(), torch.inference_mode(), torch.profiler.profile(activities=activities) as profiled:
        batch.sample_steps(rows)
        synchronize()
    by = "self_cuda_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    text = profiled.key_averages().table(sort_by=by, row_limit=40, max_name_column_width=70)
    (place / "profile.txt").write_text(text)
    say("the kernels' shares are in", "profile.txt")
