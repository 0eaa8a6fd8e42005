"""A step of `paper_7b` on an H200, modelled from the launches and bytes that the code needs. Nothing here is measured.

The central case: completions of 512 tokens on average, 80 % of the proposals valid, half of the groups with a gradient.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.gpu.counting import H200
from benchmarks.gpu.launches import decode_step_cost, logprobs_cost, micro_batch_cost, sampling_cost
from benchmarks.gpu.shapes import SEVEN_B
from benchmarks.gpu.workload import ATTEMPTS, Draw, student_batch, teacher_batch

PROPOSALS = 192
PROPOSAL_TOKENS = 660
ATTEMPT_TOKENS = 300
VALID = 0.8
WITH_GRADIENT = 0.5
COMPLETION_TOKENS = 512
ROWS = 512
# Tokens of prompts a second: about half of what the products alone would allow.
_PREFILL = 30e3
# A row is sampled on average so many tokens beyond its end: the host looks at every four tokens, four tokens late.
_LATE = 6
_KV_BYTES = 2 * SEVEN_B.layers * SEVEN_B.kv_heads * (SEVEN_B.hidden // SEVEN_B.heads) * 2


@dataclass(frozen=True, slots=True)
class Step:
    """Modelled seconds of a step."""

    propose: float
    solve: float
    learn: float
    solved_tokens: int

    @property
    def total(self) -> float:
        """The whole step."""
        return self.propose + self.solve + self.learn


Decode = Callable[[int, int], float]
"""Returns the seconds of a decode step of so many rows, which have so many tokens together."""


def modelled(efficiency: float) -> Step:
    """Returns a step in which every kernel reaches this share of its limit."""
    decode = partial(_decode_seconds, *_line(), efficiency)
    draw = random.Random(0)
    valid = round(PROPOSALS * VALID)
    propose, _ = _phase(draw, [1] * PROPOSALS, PROPOSAL_TOKENS, decode)
    solve, tokens = _phase(draw, [ATTEMPTS] * valid, ATTEMPT_TOKENS, decode)

    head = logprobs_cost(SEVEN_B, 16384).seconds / 16384
    learn = 0.0
    for make, rows, scored in (
        (teacher_batch, PROPOSALS * (PROPOSAL_TOKENS + COMPLETION_TOKENS), PROPOSALS * COMPLETION_TOKENS),
        (
            student_batch,
            valid * WITH_GRADIENT * (ATTEMPT_TOKENS + ATTEMPTS * COMPLETION_TOKENS),
            valid * WITH_GRADIENT * ATTEMPTS * COMPLETION_TOKENS,
        ),
    ):
        groups = make(Draw(SEVEN_B.vocabulary), 16384)
        cost = micro_batch_cost(SEVEN_B, groups, checkpointing=False).of(SEVEN_B.layers)
        learn += rows * cost.seconds / sum(group.tokens for group in groups) + scored * head
    return Step(propose, solve, learn / efficiency, tokens)


def _line() -> tuple[float, float, float]:
    """Returns the least seconds of a decode step, and the line through those of 128 and 512 rows without attention."""
    seconds: list[float] = []
    for rows in (8, 128, 512):
        cost = decode_step_cost(SEVEN_B, rows, 1024).of(SEVEN_B.layers) + sampling_cost(SEVEN_B, rows)
        seconds.append(cost.seconds - rows * 1024 * _KV_BYTES / H200.bandwidth)
    slope = (seconds[2] - seconds[1]) / (512 - 128)
    return seconds[0], seconds[1] - 128 * slope, slope


def _decode_seconds(least: float, start: float, slope: float, efficiency: float, rows: int, tokens: int) -> float:
    return (max(least, start + slope * rows) + tokens * _KV_BYTES / H200.bandwidth) / efficiency


def _phase(draw: random.Random, groups: list[int], prompt: int, decode: Decode) -> tuple[float, int]:
    """Returns the seconds in which all groups are sampled, and their tokens."""
    seconds = 0.0
    tokens = 0
    left: list[int] = []
    reached: list[int] = []
    waiting = [[_length(draw) for _ in range(count)] for count in groups]
    while waiting or left:
        while waiting and len(left) + len(waiting[0]) <= ROWS:
            admitted = waiting.pop(0)
            tokens += sum(admitted)
            left += [length + _LATE for length in admitted]
            reached += [prompt] * len(admitted)
            seconds += prompt / _PREFILL
        seconds += decode(len(left), sum(reached))
        left = [length - 1 for length in left]
        live = [i for i, length in enumerate(left) if length > 0]
        reached = [reached[i] + 1 for i in live]
        left = [left[i] for i in live]
    return seconds, tokens


def _length(draw: random.Random) -> int:
    length = COMPLETION_TOKENS * draw.lognormvariate(-0.18, 0.6)
    return max(8, min(4 * COMPLETION_TOKENS, int(length)))


def print_table() -> None:
    """Prints the modelled steps."""
    print("Modelled from counted launches and bytes, not measured: a step of paper_7b on one H200, central case.")
    for name, efficiency in (("every kernel at its limit", 1.0), ("every kernel at 65 % of its limit", 0.65)):
        step = modelled(efficiency)
        rate = step.solved_tokens / step.solve
        print(
            f"{name}: propose {step.propose:.0f} s, solve {step.solve:.0f} s ({rate:,.0f} tokens/s), "
            f"learn {step.learn:.0f} s, step {step.total:.0f} s, 200 steps {step.total / 18:.1f} h"
        )
