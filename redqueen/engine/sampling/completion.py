"""One completion while it is sampled: its tokens so far, and what ends it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from redqueen.records import FinishReason, SamplingParams
from redqueen.tasks.programs.tagged import answer_end


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
    # Decoding the whole text after each token would take quadratic time, so only a tail is decoded. One token is
    # at least one byte, so this tail holds every stop string that the newest token can complete.
    longest = max((len(stop.encode()) for stop in row.stop), default=0)
    tail = tokenizer.decode(row.token_ids[-(longest + 1) :], skip_special_tokens=False)
    if any(stop in tail for stop in row.stop):
        return not row.tagged or _answered(tokenizer, row, longest)
    # The number of lines can have changed only where a line ends.
    if not row.max_lines or "\n" not in tail:
        return False
    return tokenizer.decode(row.token_ids, skip_special_tokens=False).count("\n") >= row.max_lines


def _answered(tokenizer: Any, row: Row, longest: int) -> bool:
    """Whether the newest token completes the tag that ends an answer."""
    # Only then the whole text is decoded.
    before = tokenizer.decode(row.token_ids[-(longest + 1) : -1], skip_special_tokens=False)
    if any(stop in before for stop in row.stop):
        return False
    return answer_end(tokenizer.decode(row.token_ids, skip_special_tokens=True)) is not None
