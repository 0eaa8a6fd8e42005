"""The weights of a sample's tokens in the policy-gradient loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from redqueen.records import Sample


def token_weights(samples: Sequence[Sample], loss: Literal["token_mean", "sequence_mean"]) -> list[float]:
    """For each sample the weight of each of its tokens, normalised over its own member's samples only.

    token_mean: 1 / (the member's completion tokens). sequence_mean: 1 / (its samples x this one's tokens).
    A member's update therefore does not depend on who else is in the batch.
    """
    tokens: dict[str, int] = {}
    count: dict[str, int] = {}
    for sample in samples:
        tokens[sample.member] = tokens.get(sample.member, 0) + len(sample.token_ids)
        count[sample.member] = count.get(sample.member, 0) + 1
    if loss == "token_mean":
        return [1 / tokens[sample.member] for sample in samples]
    return [1 / (count[sample.member] * len(sample.token_ids)) for sample in samples]
