"""Decode steps of a GPU day: a batch that is ready for them, their errors and their kernels."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from benchmarks.gpu.clock import synchronize
from benchmarks.gpu.output import folder, say
from redqueen.policy.lora.adapter_bank import AdapterBank
from redqueen.policy.model.attention import SharedPrefix, SharedPrefixAttention
from redqueen.policy.model.decoder import Decoder
from redqueen.policy.sampling.device_batch import DeviceBatch, PlacedPrompt
from redqueen.records import SamplingParams

# Of a measured decode step: how many are queued at a time, tokens of a row's room, and prompts of one pass.
STEPS = 4
SAMPLED = 16 * STEPS
PREFILLED = 16


def decoding_error(decoder: Decoder, bank: AdapterBank) -> float:
    """Returns the relative error of hidden states after decode steps, against one pass over the same tokens."""
    rows, tokens = 6, 12
    batch, _ = filled(decoder, bank, rows, tokens)
    with torch.inference_mode():
        token_RS, _ = batch.sample_steps(rows).wait()
        stepped = batch.hidden_RH[:rows].float()
        errors: list[float] = []
        for row, written in enumerate(token_RS):
            # The last sampled token is not computed yet.
            ids = [*_prompt_of(row, tokens), *written[:-1]]
            attention = SharedPrefixAttention([SharedPrefix(0, len(ids))], decoder.embed_VH.device)
            ids_N = torch.tensor(ids, device=decoder.embed_VH.device)
            position_N = torch.arange(len(ids), device=decoder.embed_VH.device)
            whole = decoder.hidden(ids_N, position_N, attention, bank.rows([row % 4], [len(ids)]))[-1].float()
            errors.append(float((stepped[row] - whole).norm() / whole.norm()))
    return max(errors)


def _prompt_of(row: int, tokens: int) -> tuple[int, ...]:
    return tuple((7 * row + 3 * place) % 500 for place in range(tokens))


def filled(decoder: Decoder, bank: AdapterBank, rows: int, tokens: int) -> tuple[DeviceBatch, float]:
    """Returns a batch of rows with prompts of so many tokens, of members in no order, and the prompts' seconds."""
    batch = DeviceBatch(decoder, bank, rows, tokens + SAMPLED, SAMPLED, STEPS)
    prompts = [PlacedPrompt(row % 4, _prompt_of(row, tokens), [row]) for row in range(rows)]
    with torch.inference_mode():
        batch.admit(prompts, [("bench", row) for row in range(rows)], [SAMPLED] * rows)
        ordered = sorted(prompts, key=lambda prompt: prompt.slot)
        synchronize()
        began = time.perf_counter()
        # A pass of 16 prompts takes no more memory than a run's.
        for start in range(0, rows, PREFILLED):
            batch.prefill(ordered[start : start + PREFILLED])
        synchronize()
        seconds = time.perf_counter() - began
        batch.assign([row % 4 for row in range(rows)], [SamplingParams(max_tokens=SAMPLED)] * rows)
    return batch, seconds


def profile(call: Callable[[], object]) -> None:
    """Says which kernels take the time of a call, and writes all of them to a file among the results."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profiled:
        call()
        synchronize()
    by = "self_cuda_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    text = profiled.key_averages().table(sort_by=by, row_limit=40, max_name_column_width=70)
    place = folder()
    if place is not None:
        (place / "profile.txt").write_text(text)
        say("   the kernels' shares are in", "profile.txt")
