"""The part `7b`: whole steps of 4 teachers and 4 students of `paper_7b`, and of one adapter with as many tasks.

The base has random weights of the shape of Qwen2.5-7B, so nothing is downloaded, and texts end at drawn lengths. The
batches are those that the plan makes fit on the card. Nothing is judged: four in five proposals lead to attempts, and
half of the tasks to a gradient.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from benchmarks.gpu.clock import device_for, forget_peak, reserved_gb, synchronize
from benchmarks.gpu.output import folder, say, seconds_left
from benchmarks.gpu.planned_memory import PlannedMemory
from benchmarks.gpu.shapes import SEVEN_B, TINY, Shape, random_decoder, random_members, random_policy, samples_of
from benchmarks.gpu.workload import ATTEMPT_PROMPT, ATTEMPTS, PROPOSAL_PROMPT, Draw, row_group
from redqueen.config import LearningConfig, SamplingConfig
from redqueen.engine.model.decoder import Decoder
from redqueen.engine.policy import Policy
from redqueen.engine.sampling.continuous_batch import RowGroup
from redqueen.engine.sampling.tokens import Row
from redqueen.engine.work import Work
from redqueen.records import Sample, SamplingParams

MEMBERS = 8
TEACHERS = 4
PROPOSALS = 192
"""Of a whole step: 16 of each of three kinds, in four matches."""
VALID = 0.8
# Tokens of a text on average; the longest have four times as many. In runs texts are shorter than a recipe allows, and
# the longest one alone decides how long a batch takes at least.
_MEAN = 128
# Of the longest text, what is sampled; the rest is its prompt.
_LONG = 4
_SHARES = (1.0, 0.75, 0.5, 0.25, 0.125)
# Shares of the small steps that say how long larger ones take.
_SMALL = (1 / 32, 1 / 8)
_STEPS = 3
"""Two of the population and one of one adapter."""
# The paper reports this many times the wall clock of its single agent.
_PAPER = 1.31


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of a run."""

    rows: int
    room: int
    prefill: int
    cache_tokens: int
    tokens: int
    """Of a micro-batch."""
    checkpointing: bool
    planned: int
    """Bytes that the plan needs."""


def part(*, tiny: bool) -> None:
    """Takes the steps with the batches that are planned for the card."""
    device = device_for(tiny=tiny)
    if tiny:
        toy = Batches(rows=16, room=96, prefill=256, cache_tokens=0, tokens=256, checkpointing=False, planned=0)
        run_steps(TINY, device, toy, most=0.03, scale=16)
    else:
        run_steps(SEVEN_B, device, planned_batches(SEVEN_B, torch.cuda.mem_get_info()[0]))


def planned_batches(shape: Shape, free: int) -> Batches:
    """Returns what a run of `paper_7b` would take on a GPU with so many free bytes."""
    config, room, need = PlannedMemory(shape, MEMBERS).fitted(free)
    return Batches(
        rows=config.sampling.batch_rows,
        room=room,
        prefill=config.sampling.prefill_tokens,
        cache_tokens=config.sampling.cache_tokens,
        tokens=config.learning.batch_tokens,
        checkpointing=config.learning.checkpointing is True,
        planned=need,
    )


def run_steps(shape: Shape, device: torch.device, batches: Batches, *, most: float = 1.0, scale: int = 1) -> None:
    """Takes two steps of the population and one of one adapter, as large as the time allows.

    `most` is the largest share of a whole step's tasks; `scale` divides the lengths of texts.

    If memory runs out, torch's account of it is among the results, and the error is raised.
    """
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.memory._record_memory_history(stacks="python", max_entries=200_000)  # pyright: ignore[reportPrivateUsage]
    began = time.perf_counter()
    decoder = random_decoder(shape, device)
    synchronize()
    say(f"seconds for {shape.layers} layers of random weights", round(time.perf_counter() - began, 1))
    say("planned for this card", batches)
    try:
        _take(_Steps(shape, decoder, batches, scale), most)
    except torch.OutOfMemoryError:
        place = folder()
        if on_gpu and place is not None:
            torch.cuda.memory._dump_snapshot(str(place / "memory.pickle"))  # pyright: ignore[reportPrivateUsage]
        raise


def _take(steps: _Steps, most: float) -> None:
    """Takes the steps, after small ones: the first compiles kernels, and the others say what there is time for."""
    population = steps.policy(MEMBERS)
    steps.take(population, min(most, _SMALL[0]), "first step, with compilation", 0)
    few, more = (steps.take(population, min(most, share), "small step", 0) for share in _SMALL)
    forget_peak()
    share = min(most, affordable(few, more, 0.9 * seconds_left()))
    say("share of the tasks of a whole step", share, "1: all")
    joint = [steps.take(population, share, f"step {number} of 4 teachers and 4 students", number) for number in (1, 2)]
    say("   GB reserved at most", reserved_gb(), f"planned {steps.batches.planned / 1e9:.1f}")
    del population
    forget_peak()
    alone = steps.policy(1)
    seconds = steps.take(alone, share, "step of one adapter", 2)
    say("a step of the population over that of one adapter", round(joint[-1] / seconds, 3), f"{_PAPER} in the paper")


def affordable(few: float, more: float, left: float) -> float:
    """Returns the largest share for which there is time, when the two small steps took so many seconds."""
    # The longest text decides how long a step takes at least, so time is no multiple of the share.
    slope = max(0.0, (more - few) / (_SMALL[1] - _SMALL[0]))
    start = few - slope * _SMALL[0]
    fits = [share for share in _SHARES if _STEPS * (start + slope * share) <= left]
    return fits[0] if fits else _SHARES[-1]


class _Steps:
    """Steps on one base."""

    def __init__(self, shape: Shape, decoder: Decoder, batches: Batches, scale: int) -> None:
        self.shape = shape
        self.decoder = decoder
        self.batches = batches
        self.scale = scale

    def policy(self, members: int) -> Policy:
        """Returns a policy with so many members."""
        batches = self.batches
        learning = LearningConfig(lr=1e-5, batch_tokens=batches.tokens, checkpointing=batches.checkpointing)
        sampling = SamplingConfig(
            batch_rows=batches.rows, prefill_tokens=batches.prefill, cache_tokens=batches.cache_tokens
        )
        bank = random_members(self.decoder, self.shape, members)
        return random_policy(self.decoder, bank, learning, sampling)

    def take(self, policy: Policy, share: float, name: str, seed: int) -> float:
        """Takes a step of such a share of the tasks; prints its phases and returns its seconds."""
        draw = Draw(self.shape.vocabulary, self.scale, seed, _MEAN)
        count = max(2, round(share * PROPOSALS))
        valid = max(2, round(VALID * count))
        members = len(policy.members)
        teachers = min(TEACHERS, members)
        students = max(1, members - teachers)
        first = members - students
        proposals = [row_group(draw, i % teachers, PROPOSAL_PROMPT, 1, i) for i in range(count)]
        attempts = [row_group(draw, first + i % students, ATTEMPT_PROMPT, ATTEMPTS, count + i) for i in range(valid)]
        say(name, f"{count} proposals, {valid} tasks of {ATTEMPTS} attempts, {members} members")
        seconds = self._sample(policy, "propose", proposals) + self._sample(policy, "solve", attempts)
        # A task that all or no attempts solve has no gradient.
        return seconds + self._learn(policy, samples_of([*proposals, *attempts[::2]]))

    def _sample(self, policy: Policy, name: str, groups: Sequence[RowGroup]) -> float:
        placed = [_long(self.batches.room), *groups]
        synchronize()
        with policy.meter.sampling() as work:
            work.decode_steps = policy.executor.sample(placed, policy.sampler.limits, lambda row: None)
            synchronize()
            work.prompt_tokens = sum(len(group.prompt_ids) for group in placed)
            work.sampled_tokens = sum(len(row.token_ids) for group in placed for row in group.rows)
        taken = policy.take_work()
        say(f"   {name}: seconds, tokens a second", _rates(taken, taken.sampling_s, taken.sampled_tokens))
        return taken.sampling_s

    def _learn(self, policy: Policy, samples: Sequence[Sample]) -> float:
        updates = policy.learner.update(samples)
        synchronize()
        taken = policy.take_work()
        say("   learn: seconds, rows a second", _rates(taken, taken.training_s, taken.trained_rows))
        gap = max(update.logprob_gap for update in updates)
        say("   nats between the sampler's log-probabilities and the learner's", round(gap, 5), "below 0.05")
        return taken.training_s


def _rates(work: Work, seconds: float, count: int) -> str:
    """Returns seconds, things a second, and the model FLOPs, as a share of the card's where that is known."""
    rate = work.flops / seconds
    share = f" ({100 * rate / work.peak_flops:.0f} % of the card's)" if work.peak_flops else ""
    return f"{seconds:.2f}, {count / seconds:,.0f}; {rate / 1e12:.1f} model TFLOP/s{share}"


def _long(room: int) -> RowGroup:
    """Returns a text that reaches as far as a run's may: it makes the cache as large as a run's."""
    row = Row(-1, ("long",), SamplingParams(max_tokens=_LONG), ())
    return RowGroup(0, (1,) * (room - _LONG), [row])
