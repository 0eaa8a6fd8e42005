"""The divergence compared with transformers' own model with each member merged into it, in float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from redqueen.analysis.replay import Replay
from redqueen.extras.studies.retention import mean_kl
from redqueen.records import Completion
from tests.reference import merged, noisy

pytestmark = pytest.mark.integration


def completion(prompt: tuple[int, ...], tokens: tuple[int, ...]) -> Completion:
    return Completion(
        member="p",
        version=1,
        prompt_ids=prompt,
        token_ids=tokens,
        logprobs=(0.0,) * len(tokens),
        text="",
        finish_reason="stop",
    )


WRITTEN = [
    completion((5, 6, 7), (8, 9, 10, 11)),
    completion((5, 6, 7), (12,)),
    completion((1, 2), (3, 4)),
    completion((20, 21, 22, 23), (24, 25, 26)),
]


@pytest.mark.parametrize("batch_tokens", [64, 4096])
def test_the_divergence_is_the_sum_over_the_vocabulary(toy_replay: Callable[..., Replay], batch_tokens: int) -> None:
    replay = toy_replay(4, **{"learning.batch_tokens": batch_tokens})
    for i, name in enumerate(("x", "p", "y")):
        replay.policy.join(name, noisy(replay.policy.adapters, seed=i))
    replay.policy.join("same", replay.policy.adapter("p"))
    many = WRITTEN * 12  # several micro-batches of 64 tokens
    found = mean_kl(replay, "p", ["x", "y", "same"], many)
    models = {name: merged(replay.policy.base, replay.policy.adapters, name) for name in ("p", "x", "y")}
    for child in ("x", "y"):
        total = 0.0
        for c in WRITTEN:
            ids = torch.tensor([c.prompt_ids + c.token_ids])
            with torch.no_grad():
                p, q = (
                    models[name](ids).logits[0, len(c.prompt_ids) - 1 : -1].log_softmax(-1) for name in ("p", child)
                )
            total += float((p.exp() * (p - q)).sum())
        assert found[child] == pytest.approx(total / sum(len(c.token_ids) for c in WRITTEN), rel=1e-4)
        assert found[child] > 0.01
    assert found["same"] == 0


def test_a_divergence_without_tokens_is_refused(toy_replay: Callable[..., Replay]) -> None:
    replay = toy_replay(1)
    replay.policy.join("p", noisy(replay.policy.adapters))
    with pytest.raises(ValueError, match="no token"):
        mean_kl(replay, "p", ["p"], [completion((1,), ())])
