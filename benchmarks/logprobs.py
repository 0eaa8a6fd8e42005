"""`python -m benchmarks logprobs`: log-probabilities of given tokens and their gradient.

Red Queen computes them without a table [rows, vocabulary]; it is compared with the full table and with torch's own
fused loss.

Times are taken in this process, where the contenders take turns. Memory is measured in a fresh process for each
contender: how far its resident memory rises above what it was with the inputs in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks import system
from benchmarks.report import Report, against, finish, log, times
from benchmarks.system import BenchmarkConfig
from benchmarks.timing import BenchmarkError, Contender, Stopwatch, Timing, in_fresh_process, peak, take_turns
from redqueen.engine.model.forward import TokenLogprobs

COLUMNS = (
    ("ratio", "ratio"),
    ("how", ""),
    ("cpu_ms", "forward+backward, CPU ms"),
    ("wall_ms", "wall ms"),
    ("peak_mb", "memory, MB"),
    ("error", "worst error, nats"),
)
Way = Literal["ours", "full", "torch chunked", "torch reference"]
NAMES: dict[Way, str] = {
    "ours": "Red Queen, chunked",
    "full": "log_softmax in fp32",
    "torch chunked": "F.linear_cross_entropy, chunked",
    "torch reference": "F.linear_cross_entropy, defaults",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """Scored rows, hidden size and vocabulary."""

    rows: int
    hidden: int
    vocabulary: int


def run_bench_logprobs(config: BenchmarkConfig, rows: int, rounds: int, *, as_json: bool) -> int:
    """Measures and prints the report; returns the exit code."""
    vocabulary, hidden = system.quiet_base(config).model.get_output_embeddings().weight.shape
    shape = Shape(rows, hidden, vocabulary)
    report = Report("logprobs", {**asdict(config), **asdict(shape), "rounds": rounds})
    case = f"{rows} rows x {vocabulary} tokens, hidden size {hidden}, forward and backward"
    # An older torch lacks the fused loss. The two contenders that need it are then reported as missing.
    ways: list[Way] = list(NAMES)
    if not hasattr(F, "linear_cross_entropy"):
        ways = ways[:2]
        report.unavailable(
            "F.linear_cross_entropy", f"torch {torch.__version__} does not have it: it came with torch 2.13"
        )
    contenders: dict[Way, Contender] = {
        way: Contender(NAMES[way], _turn(work(way, shape, config.dtype))) for way in ways
    }
    take_turns(list(contenders.values()), rounds, log, case)
    exact = work("full", shape, config.dtype)()
    for way, contender in contenders.items():
        error = float((work(way, shape, config.dtype)() - exact).abs().max())
        row = {**times(case, contender, contenders["full"]), "error": round(error, 6)}
        # Memory is measured apart from time: in this process the allocator still holds what earlier contenders freed,
        # so that a peak would depend on the order.
        try:
            row["peak_bytes"] = in_fresh_process(growth, way, shape, config.dtype)
            row["peak_mb"] = round(row["peak_bytes"] / 1e6, 1)
        except BenchmarkError as why:
            report.unavailable(f"memory of {contender.name}", why)
        report.results.append(row)
    for way in ways[1:]:
        seconds = against(contenders["ours"], contenders[way], lambda t: t.cpu_s)
        report.ratio(f"CPU time of ours / {NAMES[way]}", seconds, "")
    return finish(report, COLUMNS, as_json, ["1.00 is the full table in fp32, and errors are against it"])


def work(way: Way, shape: Shape, dtype: str) -> Callable[[], Tensor]:
    """Returns a function that computes log-probabilities [N] and the gradient of their weighted sum in its inputs.

    Inputs are the same for all ways. Weights are small enough that no probability is 0 or 1.
    """
    noise = torch.Generator().manual_seed(0)
    kind: torch.dtype = getattr(torch, dtype)
    hidden_NH = torch.randn(shape.rows, shape.hidden, generator=noise).to(kind).requires_grad_()
    weight_VH = torch.randn(shape.vocabulary, shape.hidden, generator=noise).mul_(0.05).to(kind)
    target_N = torch.randint(shape.vocabulary, (shape.rows,), generator=noise)
    # Every row has another weight: with equal ones a way could skip the multiplication.
    weight_N = torch.randn(shape.rows, generator=noise)
    compute = _WAYS[way]

    def once() -> Tensor:
        hidden_NH.grad = None
        logp_N = compute(hidden_NH, weight_VH, target_N)
        (weight_N * logp_N).sum().backward()
        return logp_N.detach()

    return once


def growth(way: Way, shape: Shape, dtype: str) -> int:
    """Returns the bytes by which resident memory rises. It must run in a fresh process."""
    once = work(way, shape, dtype)
    # A tiny run loads libraries and compiled kernels first, so that their memory does not count.
    work(way, Shape(2, shape.hidden, 8), dtype)()
    before, most = peak(once)
    return most - before


def _turn(once: Callable[[], Tensor]) -> Callable[[], Timing]:
    """Returns `once` as a turn of a contender."""

    def turn() -> Timing:
        with Stopwatch() as watch:
            once()
        return Timing(watch.cpu_s, watch.wall_s)

    return turn


def _ours(hidden_NH: Tensor, weight_VH: Tensor, target_N: Tensor) -> Tensor:
    return TokenLogprobs.apply(hidden_NH, weight_VH, target_N, 1.0)


def _full(hidden_NH: Tensor, weight_VH: Tensor, target_N: Tensor) -> Tensor:
    return (hidden_NH @ weight_VH.T).float().log_softmax(-1).gather(1, target_N[:, None])[:, 0]


def _reference(hidden_NH: Tensor, weight_VH: Tensor, target_N: Tensor, options: Any = None) -> Tensor:
    function: Any = F.linear_cross_entropy  # pyright: ignore[reportAttributeAccessIssue]
    return -function(hidden_NH, weight_VH, target_N, reduction="none", options=options).float()


def _chunked(hidden_NH: Tensor, weight_VH: Tensor, target_N: Tensor) -> Tensor:
    options: Any = torch.nn.LinearCrossEntropyOptions()  # pyright: ignore[reportAttributeAccessIssue]
    return _reference(hidden_NH, weight_VH, target_N, options)


_WAYS: dict[Way, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "ours": _ours,
    "full": _full,
    "torch chunked": _chunked,
    "torch reference": _reference,
}
