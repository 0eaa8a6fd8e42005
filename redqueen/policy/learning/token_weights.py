"""The weights of a sample's tokens in the policy-gradient loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from redqueen.records import Sample


def token_weights(samples: Sequence[Sample], loss: Literal["token_mean", "sequence_mean"]) -> list[float]:
    """Returns one weight for each sample: that of each of its tokens in the loss.

    token_mean: 1 / (the completion tokens of the sample's member).
    sequence_mean: 1 / (the samples of the sample's member x the sample's tokens).
    """
    # The sums run over the samples of one member: its update must not depend on the other members in the batch.
    tokens: dict[str, int] = {}
    count: dict[str, int] = {}
    for sample in samples:
        tokens[sample.member] = tokens.get(sample.member, 0) + len(sample.token_ids)
        count[sample.member] = count.get(sample.member, 0) + 1
    if loss == "token_mean":
        return [1 / tokens[sample.member] for sample in samples]
    return [1 / (count[sample.member] * len(sample.token_ids)) for sample in samples]
