"""How long a run would take on a GPU that need not be here: modelled from bytes and FLOPs, not measured.

The batch of a step is played through with the pages that it has. Each part takes the time of its memory traffic or of
its FLOPs at a share of what the card can do. The sandbox is left out. This is an order of cards, and no promise.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from redqueen.base import streams
from redqueen.engine.memory.machine import Demand
from redqueen.engine.sampling.kv_cache import Pages, batch_pages

# What kernels reach of a card's limits: decoding of its bandwidth, prompts and training of its FLOPs. The model of
# docs/GPU.md has the first from counted launches; trainers of adapters with fused kernels are said to reach the second.
_DECODING = 0.6
_PRODUCTS = 0.62
# What is not known before a run: the share of the proposals that are valid, the share of tasks whose attempts have a
# gradient, and the mean length of a text as a share of its limit, with a long tail (log-normal).
VALID = 0.8
CONTESTED = 0.5
MEAN_TEXT = 0.25
_SIGMA = 0.6
# A student's prompt, which shows a program and one worked example; the plan of memory allows for the longest there is.
_ATTEMPT_PROMPT = 300
# A row is sampled so many tokens beyond its end: the host looks at every four tokens, four tokens late.
_LATE = 6
# Kernels of a layer whose time is that of their launch, in seconds each.
_SMALL_KERNELS = 13
_LAUNCH = 2.5e-6
# Bytes that sampling reads and writes for each logit.
_LOGIT_BYTES = 16
# Tokens of every row that are played through at once.
_TICK = 16


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU: what it can do, as far as it is known."""

    name: str
    memory: int
    """GB."""
    bandwidth: float
    """Bytes a second that a copy reads and writes together."""
    peak: float
    """FLOPs a second of a large product in bf16."""


CARDS = (
    # Nine tenths of what the makers say.
    Card("RTX 4090", 24, 0.92e12, 148e12),
    Card("L40S", 48, 0.78e12, 326e12),
    # Measured, the H200's; an H100 has the same processors, and its bandwidth was measured too.
    Card("H100", 80, 3.0e12, 790e12),
    Card("H200", 141, 4.3e12, 790e12),
)
"""One card for each usual size of memory."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Modelled seconds of a step."""

    propose: float
    solve: float
    learn: float
    solved_tokens: int
    """Tokens of all attempts."""
    put_back: int
    """Rows that were put back for want of pages."""

    @property
    def step(self) -> float:
        """Seconds of the whole step."""
        return self.propose + self.solve + self.learn

    def hours(self, steps: int) -> float:
        """Returns the hours of so many steps."""
        return self.step * steps / 3600


def card_of(size: int) -> Card:
    """Returns the card whose memory is nearest to `size` bytes."""
    return min(CARDS, key=lambda card: abs(card.memory * 1e9 - size))


def forecast(plan: Demand, card: Card) -> Forecast:
    """Returns the modelled time of a step with the batches of `plan`, all in bf16."""
    game = plan.game
    matches = round(plan.matches * (1 + plan.hall_matches))
    lengths = plan.lengths
    proposals = matches * len(game.kinds) * game.proposals if plan.population.teachers else 0
    tasks = round(proposals * VALID) or matches * len(game.kinds) * game.proposals
    rng = streams.python(0, "forecast")
    written = [[length] for length in _lengths(rng, proposals, plan.sampling.proposal_tokens)]
    attempted = _lengths(rng, tasks * game.attempts, plan.sampling.attempt_tokens)
    rows = min(plan.sampling.batch_rows, proposals + len(attempted))
    # The attempts at a task that are more than a batch has rows are sampled in parts.
    size = min(game.attempts, rows)
    solved = [attempted[at : at + size] for at in range(0, len(attempted), size)]

    speed = _Speed(plan, card)

    def play(groups: Sequence[Sequence[int]], prompt: int, limit: int) -> tuple[float, int]:
        # A batch always holds one text.
        room = max(lengths.proposal, lengths.attempt, _ATTEMPT_PROMPT) + limit + _LATE
        pages = Pages(batch_pages(rows, room, plan.sampling.cache_tokens), rows) if plan.machine.pages else None
        return _play(groups, prompt, rows, pages, speed)

    propose, first = play(written, lengths.proposal, plan.sampling.proposal_tokens)
    solve, second = play(solved, _ATTEMPT_PROMPT, plan.sampling.attempt_tokens)
    trained = sum(lengths.proposal + group[0] for group in written)
    trained += round(CONTESTED * (tasks * _ATTEMPT_PROMPT + sum(attempted)))
    return Forecast(propose, solve, trained * speed.trained_token, sum(attempted), first + second)


class _Speed:
    """The seconds of single parts on a card."""

    def __init__(self, plan: Demand, card: Card) -> None:
        shape = plan.machine.shape
        products = 2 * shape.linear / card.peak
        size = 2
        # Every step reads the members' factors as well, those of one role at a time.
        members = max(plan.population.teachers, plan.population.students)
        weights = size * (shape.linear + members * shape.factors * plan.model.rank)
        self._least = weights / card.bandwidth
        self._launches = shape.layers * _SMALL_KERNELS * _LAUNCH
        self._row = products
        self._logits = shape.vocabulary * _LOGIT_BYTES / card.bandwidth
        self._token = plan.machine.token_bytes / card.bandwidth
        self.prompt_token = products / _PRODUCTS
        # Forward, and backward for the inputs: the base's weights have no gradient. The factors are a few per cent.
        passes = 3 if plan.learning.checkpointing is True else 2
        self.trained_token = passes * products / _PRODUCTS

    def step(self, rows: int, tokens: int) -> float:
        """Returns the seconds of a decode step of so many rows, which have so many tokens together."""
        reading = max(self._least, rows * self._row) + self._launches + rows * self._logits + tokens * self._token
        return reading / _DECODING


def _lengths(rng: random.Random, count: int, limit: int) -> list[int]:
    mean = MEAN_TEXT * limit
    return [max(1, min(limit, int(mean * rng.lognormvariate(-(_SIGMA**2) / 2, _SIGMA)))) for _ in range(count)]


def _play(
    groups: Sequence[Sequence[int]], prompt: int, rows: int, pages: Pages | None, speed: _Speed
) -> tuple[float, int]:
    """Returns the seconds in which groups of texts are sampled that share a prompt, and how many rows were put back."""
    batch = _Batch(rows, pages)
    waiting = [(prompt, [length + _LATE for length in group]) for group in reversed(groups)]
    seconds = 0.0
    put_back = 0
    while waiting or batch.live:
        while waiting and (count := batch.takes(*waiting[-1])):
            prompt, texts = waiting.pop()
            batch.begin(prompt, texts[:count])
            seconds += prompt * speed.prompt_token
            if texts[count:]:
                waiting.append((prompt, texts[count:]))
        while not batch.reserve():
            waiting.append(batch.put_back())
            put_back += 1
        seconds += _TICK * speed.step(batch.live, batch.tokens)
        batch.advance()
    return seconds, put_back


class _Batch:
    """The rows of a batch, as `redqueen.engine.sampling.continuous_batch` takes and puts back rows."""

    def __init__(self, rows: int, pages: Pages | None) -> None:
        self._left = np.zeros(rows, np.int64)
        self._reached = np.zeros(rows, np.int64)
        self._pages = pages

    @property
    def live(self) -> int:
        return int(np.count_nonzero(self._left))

    @property
    def tokens(self) -> int:
        return int(self._reached.sum())

    def takes(self, prompt: int, texts: Sequence[int]) -> int:
        """Returns how many texts of a group there is room for: all, or none unless the batch is empty."""
        if self.live + len(texts) > len(self._left):
            return 0
        if self._pages is None:
            return len(texts)
        if not self.live:
            return max(1, min(len(texts), self._pages.free - self._pages.needed(prompt, 0)))
        fits = self._pages.needed(prompt, len(texts)) <= self._pages.free - self._pages.spare(self.live)
        return len(texts) if fits else 0

    def begin(self, prompt: int, texts: Sequence[int]) -> None:
        places = np.flatnonzero(self._left == 0)[: len(texts)]
        self._left[places] = texts
        self._reached[places] = prompt
        if self._pages is not None:
            self._pages.begin(places.tolist(), prompt, [prompt + text for text in texts])

    def reserve(self) -> bool:
        """Returns whether there are pages for what comes next."""
        return self._pages is None or self._pages.reserve(len(self._left), _TICK) is not None

    def put_back(self) -> tuple[int, list[int]]:
        """Ends the row with the fewest tokens. Returns it as a group that begins where the row is."""
        assert self._pages is not None
        live = np.flatnonzero(self._left)
        row = int(live[self._reached[live].argmin()])
        group = (int(self._reached[row]), [int(self._left[row])])
        self._end(row)
        return group

    def advance(self) -> None:
        """Samples some tokens of each row."""
        live = self._left > 0
        self._reached[live] += np.minimum(_TICK, self._left[live])
        self._left[live] = np.maximum(0, self._left[live] - _TICK)
        if self._pages is not None:
            self._pages.count(len(self._left), _TICK)
        for row in np.flatnonzero(live & (self._left == 0)):
            self._end(int(row))

    def _end(self, row: int) -> None:
        self._left[row] = 0
        self._reached[row] = 0
        if self._pages is not None:
            self._pages.end(row)
