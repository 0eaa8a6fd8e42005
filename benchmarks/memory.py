"""`python -m benchmarks memory`: peak resident memory of a training step with many members and with one.

Each is measured in a fresh process, in its second step (moments and gradients exist), over the same number of tokens.
The difference is compared with the fp32 weights, gradients and two moments of the further adapters, which no method
avoids. Each peak is compared with its estimate by `redqueen.engine.memory.estimate`. So are the peaks of two short
runs, with one worker process and with two, each played once.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from statistics import median

from benchmarks import system, workload
from benchmarks.report import Report, finish, log, named
from benchmarks.run_memory import measure_runs
from benchmarks.system import BenchmarkConfig
from benchmarks.timing import in_fresh_process, peak
from redqueen.config import Config, LearningConfig, SamplingConfig
from redqueen.engine.memory.estimate import fragmentation, gradients_item, held_items, total, training_items
from redqueen.engine.memory.machine import Demand, this_machine
from redqueen.records import PromptLengths

COLUMNS = (
    ("ratio", "ratio"),
    ("how", ""),
    ("peak_mb", "peak, MB"),
    ("estimate_mb", "estimate, MB"),
    ("error", "estimate / peak - 1"),
)
FP32_TENSORS = 4
"""Tensors of an adapter's size in training: weights, gradients, two moments."""


def run_bench_memory(config: BenchmarkConfig, members: int, tokens: int, rounds: int, *, as_json: bool) -> int:
    """Measures and prints the report; returns the exit code."""
    report = Report("memory", {**asdict(config), "members": members, "tokens": tokens, "rounds": rounds})
    rows = 2 * members
    case = f"a training step over {rows * (tokens // rows)} tokens"
    # Each measurement has a process of its own: the allocator keeps what was freed, so in one process the second peak
    # would contain the first. Rounds alternate between the two, as elsewhere.
    peaks: dict[int, list[int]] = {members: [], 1: []}
    size = 0
    for number in range(rounds):
        log(f"{case}: round {number + 1} of {rounds}")
        for count in peaks:
            most, size = in_fresh_process(step_peak, config, count, rows, tokens // rows)
            peaks[count].append(most)
    needs = {count: estimate(config, count, rows, tokens // rows) for count in peaks}
    one = median(peaks[1])
    need = (members - 1) * size * 4 * FP32_TENSORS
    report.results = [
        {
            "ratio": round(median(found) / one, 3),
            "case": case,
            "how": named(count),
            "peak_mb": round(median(found) / 1e6, 1),
            "estimate_mb": round(needs[count] / 1e6, 1),
            "error": round(needs[count] / median(found) - 1, 3),
            "peak_bytes_rounds": found,
        }
        for count, found in peaks.items()
    ]
    grown = median(peaks[members]) - one
    what = f"({members} members - 1) / {members - 1} adapters with gradients and two moments in fp32"
    report.ratio(f"{what} ({grown / 1e6:.0f} MB / {need / 1e6:.0f} MB)", grown / need, "<= 1.15")
    measure_runs(config, report)
    return finish(report, COLUMNS, as_json)


def estimate(config: BenchmarkConfig, members: int, rows: int, width: int) -> int:
    """Returns the estimated bytes of a training step over `rows` samples of `width` tokens; nothing is sampled."""
    run_config = Config(
        model=config.model_config.model_copy(update={"workers": 1}),
        learning=LearningConfig(batch_tokens=max(64, rows * width)),
        sampling=SamplingConfig(proposal_tokens=1, attempt_tokens=1),
    )
    machine = this_machine(run_config.model)
    demand = Demand.of(run_config, machine, PromptLengths(proposal=width - 1, attempt=width - 1), members)
    training = training_items(demand)
    return total([*held_items(demand), gradients_item(demand), *training, fragmentation(training)])


def step_peak(config: BenchmarkConfig, members: int, rows: int, width: int) -> tuple[int, int]:
    """Returns the largest resident bytes in a training step, and the number of weights of one adapter.

    It must run in a fresh process.
    """
    # transformers loads weights in threads, and the heap that they leave differs from start to start.
    os.environ["HF_DEACTIVATE_ASYNC_LOAD"] = "1"
    ours = system.build(config, members)
    vocabulary = int(ours.base.model.config.vocab_size)
    samples = workload.samples(
        vocabulary, workload.owners(workload.equal(rows, members)), width + 1 - width // 2, width // 2
    )
    # The first update allocates moments and gradients, so that the second shows what training holds all the time.
    system.update(ours, samples)
    _, most = peak(lambda: system.update(ours, samples))
    return most, sum(config.rank * (fan_in + fan_out) for fan_in, fan_out in ours.shapes().values())
