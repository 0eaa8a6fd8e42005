"""Work of the size that a step of `paper_7b` has: prompts and completions of drawn lengths, tokens of no meaning."""

from __future__ import annotations

import random
from collections.abc import Callable

from redqueen.engine.learning.packing import PromptGroup, WeightedSample, micro_batches
from redqueen.engine.sampling.continuous_batch import RowGroup
from redqueen.engine.sampling.tokens import Row
from redqueen.records import Sample, SamplingParams

# Completions are drawn around this many tokens, and end at four times as many, as with the preset's limit of 2048.
MEAN_COMPLETION = 512
# A preset's prompts of attempts and of proposals, measured with a tokenizer of Hugging Face on the seed tasks.
ATTEMPT_PROMPT = (200, 400)
PROPOSAL_PROMPT = (440, 1100)
ATTEMPTS = 8
_SPREAD = 0.6


class Draw:
    """Draws lengths and tokens; the same seed gives the same work. `scale` divides all lengths.

    `mean` is that of completions, before it is divided.
    """

    def __init__(self, vocabulary: int, scale: int = 1, seed: int = 0, mean: int = MEAN_COMPLETION) -> None:
        self.vocabulary = vocabulary
        self.scale = scale
        self.mean = mean
        self.random = random.Random(seed)

    def prompt(self, lengths: tuple[int, int]) -> tuple[int, ...]:
        """Returns a prompt of between `lengths` tokens."""
        return self.tokens(max(4, self.random.randint(*lengths) // self.scale))

    def completion(self) -> tuple[int, ...]:
        """Returns a completion."""
        return self.tokens(self.completion_length())

    def completion_length(self) -> int:
        """Returns a completion's length, log-normal around the mean."""
        mean = self.mean / self.scale
        length = mean * self.random.lognormvariate(-_SPREAD * _SPREAD / 2, _SPREAD)
        return max(4, min(round(4 * mean), int(length)))

    def tokens(self, count: int) -> tuple[int, ...]:
        """Returns so many tokens."""
        return tuple(self.random.choices(range(self.vocabulary), k=count))


def row_group(draw: Draw, slot: int, prompt: tuple[int, int], count: int, number: int) -> RowGroup:
    """Returns `count` rows to sample after one prompt, by the member in `slot`; no two calls have the same `number`."""
    rows: list[Row] = []
    for i in range(count):
        params = SamplingParams(max_tokens=draw.completion_length())
        rows.append(Row(ATTEMPTS * number + i, (number, i), params, ("</answer>",)))
    return RowGroup(slot, draw.prompt(prompt), rows)


def student_batch(draw: Draw, tokens: int) -> list[PromptGroup]:
    """Returns a micro-batch of attempts: groups of eight that share a prompt, of the members in slots 4 to 7."""

    def group(number: int) -> list[WeightedSample]:
        prompt = draw.prompt(ATTEMPT_PROMPT)
        return [_sample(prompt, draw.completion(), 4 + number % 4) for _ in range(ATTEMPTS)]

    return _micro_batch(group, tokens)


def teacher_batch(draw: Draw, tokens: int) -> list[PromptGroup]:
    """Returns a micro-batch of proposals: a prompt each, of the members in slots 0 to 3."""

    def group(number: int) -> list[WeightedSample]:
        return [_sample(draw.prompt(PROPOSAL_PROMPT), draw.completion(), number // 8 % 4)]

    return _micro_batch(group, tokens)


def _micro_batch(group: Callable[[int], list[WeightedSample]], tokens: int) -> list[PromptGroup]:
    """Returns the first micro-batch of at most `tokens` tokens."""
    samples: list[WeightedSample] = []
    drawn = 0
    number = 0
    # More than enough, so that the first micro-batch is full.
    while drawn < 1.3 * tokens:
        for weighted in group(number):
            samples.append(weighted)
            drawn += len(weighted.sample.prompt_ids) + len(weighted.sample.token_ids)
        number += 1
    return next(micro_batches(samples, tokens))


def _sample(prompt: tuple[int, ...], completion: tuple[int, ...], slot: int) -> WeightedSample:
    # About the log-probability of a token under random weights, so that the mismatch to them is small.
    logprobs = (-11.9,) * len(completion)
    sample = Sample(member=f"m{slot}", prompt_ids=prompt, token_ids=completion, logprobs=logprobs, advantage=1.0)
    return WeightedSample(sample, slot, 1e-4)
