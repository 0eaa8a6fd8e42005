"""Sampling tokens from logits, each row by its own parameters, and a row of them until it ends.

Shape suffixes: R rows, V vocabulary, B blocks of the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from redqueen.base.streams import key
from redqueen.records import FinishReason, SamplingParams
from redqueen.tasks.programs.tagged import answer_end

# Many random numbers at once, from a stream that is named like those of `redqueen.base.streams`.


def uniforms(count: int, *parts: str | int) -> np.ndarray:
    """Returns `count` float64 uniforms in [0, 1) from a counter-based stream (Philox; Salmon et al. 2011).

    A longer request begins with the numbers of a shorter one.
    """
    return np.random.Generator(np.random.Philox(key=key(*parts))).random(count)


VOCABULARY_BLOCK = 256
"""The vocabulary is cumulated in blocks of this size."""
# Logits are scaled to bits and exponentiated with base 2: on a CPU, exp2 takes a third of the time of exp.
_BITS_PER_NAT = 1 / math.log(2)


@dataclass(frozen=True, slots=True)
class SamplingTensors:
    """The sampling parameters of a batch's rows, as a tensor."""

    values_4R: Tensor
    """In fp32: a row's factor from a logit to bits at its temperature (of a greedy row: at 1), its top_p and its top_k
    (infinite where it does not use them), and whether it takes the likeliest token."""
    truncates: bool
    """Whether any row uses top_p or top_k."""
    has_greedy: bool

    @staticmethod
    def of(params: Sequence[SamplingParams]) -> SamplingTensors:
        """Returns these parameters on the CPU; row r holds `params[r]`."""
        # A row that does not use a filter gets a value that keeps every token, so that one expression serves all rows.
        greedy = [p.temperature == 0 for p in params]
        scale = [_BITS_PER_NAT / (p.temperature or 1.0) for p in params]
        top_p = [p.top_p if p.top_p < 1 and p.temperature else math.inf for p in params]
        top_k = [p.top_k if p.top_k and p.temperature else math.inf for p in params]
        return SamplingTensors(
            values_4R=torch.tensor([scale, top_p, top_k, greedy], dtype=torch.float32),
            truncates=min(top_p, default=math.inf) < math.inf or min(top_k, default=math.inf) < math.inf,
            has_greedy=any(greedy),
        )


@dataclass(frozen=True, slots=True)
class SampledTokens:
    """Tokens [R] and their log-probabilities [R], in nats."""

    token_R: Tensor
    logprob_R: Tensor


def sample_tokens(
    logits_RV: Tensor, uniform_R: Tensor, params: SamplingTensors, work_RV: Tensor | None = None
) -> SampledTokens:
    """Samples one token of each row by inverting its cumulative distribution at `uniform_R`, which is in [0, 1).

    Of the distribution at the row's temperature only the `top_k` likeliest tokens can be sampled, and of those only
    the fewest whose probability reaches `top_p` (Holtzman et al. 2020). A greedy row takes the likeliest token.
    The log-probability is that of the distribution that was sampled from, and for a greedy row, whose own
    distribution has one token, that of the whole vocabulary at temperature 1. `work_RV` is fp32 memory to compute in.
    """
    if work_RV is None:
        work_RV = torch.empty_like(logits_RV, dtype=torch.float32)
    scale_R, top_p_R, top_k_R, greedy_R = params.values_4R
    bits_RV = work_RV.copy_(logits_RV).mul_(scale_R[:, None])
    # Truncation sorts the whole vocabulary, so it is skipped unless some row needs it.
    if params.truncates:
        bits_RV = _truncate(bits_RV, top_p_R, top_k_R)
    # Subtracting the largest keeps exp2 from overflowing.
    top_R1 = bits_RV.amax(-1, keepdim=True)
    token_R, total_R = _invert(bits_RV.sub_(top_R1).exp2_(), uniform_R)
    if params.has_greedy:
        token_R = torch.where(greedy_R > 0, logits_RV.argmax(-1), token_R)
    chosen_R = logits_RV.gather(1, token_R[:, None])[:, 0].float()
    return SampledTokens(token_R, (chosen_R * scale_R - top_R1[:, 0] - total_R.log2()) / _BITS_PER_NAT)


def _invert(mass_RV: Tensor, uniform_R: Tensor) -> tuple[Tensor, Tensor]:
    """Returns each row's token at the share `uniform_R` of its total mass [R], and the totals [R]."""
    rows, vocabulary = mass_RV.shape
    spare = -vocabulary % VOCABULARY_BLOCK
    if spare:
        mass_RV = torch.nn.functional.pad(mass_RV, (0, spare))

    # First the block is found, then the token in it. A cumulative sum over the whole vocabulary would cost more than
    # everything else here.
    blocks_RBV = mass_RV.view(rows, -1, VOCABULARY_BLOCK)
    block_RB = blocks_RBV.sum(-1).cumsum_(-1)
    total_R = block_RB[:, -1]
    target_R1 = (uniform_R * total_R)[:, None]

    # Rounding can put the target at or above the last sum. Without the bound, a token of probability 0 would be taken,
    # whose log-probability is -inf.
    block_R1 = torch.minimum(torch.searchsorted(block_RB, target_R1, right=True), _last(block_RB))
    before_R1 = torch.where(block_R1 > 0, block_RB.gather(1, (block_R1 - 1).clamp_(min=0)), 0)
    inside_RV = blocks_RBV[torch.arange(rows, device=mass_RV.device), block_R1[:, 0]].cumsum(-1)
    index_R1 = torch.searchsorted(inside_RV, target_R1 - before_R1, right=True)
    index_R1 = torch.minimum(index_R1, _last(inside_RV))
    return (block_R1 * VOCABULARY_BLOCK + index_R1)[:, 0].clamp_(max=vocabulary - 1), total_R


def _last(cumulated: Tensor) -> Tensor:
    """Returns the first index [R, 1] at which a cumulative sum has its final value; any index if that is NaN."""
    index_R1 = torch.searchsorted(cumulated, cumulated[:, -1:].contiguous())
    return index_R1.clamp_(max=cumulated.shape[1] - 1)


def _truncate(bits_RV: Tensor, top_p_R: Tensor, top_k_R: Tensor) -> Tensor:
    """Returns the logits, in bits, with -inf for tokens that are cut off. The likeliest is never cut off."""
    sorted_RV, order_RV = bits_RV.sort(-1, descending=True)
    rank_V = torch.arange(bits_RV.shape[1], device=bits_RV.device)
    drop_RV = rank_V >= top_k_R[:, None]
    p_RV = sorted_RV.mul(math.log(2)).masked_fill_(drop_RV, float("-inf")).softmax(-1)
    # A token is kept if the mass before it is below top_p, so the token that reaches top_p is kept too.
    drop_RV |= p_RV.cumsum(-1) - p_RV >= top_p_R[:, None]
    drop_RV[:, 0] = False
    return bits_RV.masked_fill(torch.zeros_like(drop_RV).scatter_(1, order_RV, drop_RV), float("-inf"))


# One completion while it is sampled: its tokens so far, the prompt that it shares with others, and what ends it.


@dataclass(slots=True)
class Row:
    """One completion while it is sampled."""

    index: int
    """The row's place among the requests."""
    seed: tuple[str | int, ...]
    """The name of the row's random stream."""
    sampling: SamplingParams
    """How the row's tokens are sampled, and how many at most."""
    stop: tuple[str, ...]
    max_lines: int = 0
    """The row also ends at the end of this many lines; 0: no limit."""
    tagged: bool = False
    """Whether a stop string counts only where it ends an answer."""
    token_ids: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    """The log-probabilities of these tokens, in nats."""
    finish_reason: FinishReason | None = None
    """Why the row ended; None until it ends."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows that continue one prompt of one member, so that the prompt is computed once for all of them."""

    slot: int
    """The member's slot in the adapter bank."""
    prompt_ids: tuple[int, ...]
    rows: list[Row]

    @property
    def max_tokens(self) -> int:
        return max(row.sampling.max_tokens for row in self.rows)


_LONGEST_CHARACTER = 4
"""The most bytes of a character in UTF-8."""
_NO_CHARACTER = "\ufffd"
"""What bytes that are no character are decoded to."""


def extend(
    row: Row, tokens: Sequence[int], logprobs: Sequence[float], end_ids: Collection[int], tokenizer: Any
) -> None:
    """Appends tokens until the row ends; what was sampled after its end is dropped."""
    for token, logprob in zip(tokens, logprobs, strict=True):
        row.token_ids.append(token)
        row.logprobs.append(logprob)
        if token in end_ids or _stopped(tokenizer, row):
            row.finish_reason = "stop"
            return
        if len(row.token_ids) >= row.sampling.max_tokens:
            row.finish_reason = "length"
            return


def _stopped(tokenizer: Any, row: Row) -> bool:
    """Whether the newest token completes a stop string or the last line."""
    if not row.stop and not row.max_lines:
        return False
    longest = max((len(stop.encode()) for stop in row.stop), default=0)
    tail = _tail(tokenizer, row.token_ids, longest + 1)
    if any(stop in tail for stop in row.stop):
        return not row.tagged or _answered(tokenizer, row, longest, tail)
    # The number of lines can have changed only where a line ends.
    if not row.max_lines or "\n" not in tail:
        return False
    return tokenizer.decode(row.token_ids, skip_special_tokens=False).count("\n") >= row.max_lines


def _tail(tokenizer: Any, token_ids: Sequence[int], count: int) -> str:
    """Returns the text of the last tokens, of at least `count`.

    Decoding the whole text after each token would take quadratic time. One token is at least one byte, so the tail
    holds every stop string of fewer than `count` bytes that the newest token can complete.
    """
    # Some tokenizers decode a run of bytes as a whole: one that begins within a character hides a newline after it.
    tail = ""
    for more in range(_LONGEST_CHARACTER):
        tail = tokenizer.decode(token_ids[-(count + more) :], skip_special_tokens=False)
        if not tail.startswith(_NO_CHARACTER):
            break
    return tail


def _answered(tokenizer: Any, row: Row, longest: int, tail: str) -> bool:
    """Whether the newest token, the last of `tail`, completes the tag that ends an answer."""
    before = _tail(tokenizer, row.token_ids[:-1], longest)
    # A mention of the tag shortly before, in a string say, is no reason to overlook the tag itself.
    if all(tail.count(stop) <= before.count(stop) for stop in row.stop):
        return False
    # Only then the whole text is decoded.
    return answer_end(tokenizer.decode(row.token_ids, skip_special_tokens=True)) is not None
