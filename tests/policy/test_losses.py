from __future__ import annotations

import torch

from redqueen.policy import losses
from redqueen.policy.losses import TokenLogprobs, token_weights
from redqueen.records import Sample


def test_log_probabilities_and_gradient_equal_plain_log_softmax(monkeypatch) -> None:
    monkeypatch.setattr(losses, "CHUNK", 3)
    torch.manual_seed(0)
    hidden, weight = torch.randn(8, 5), torch.randn(11, 5)
    target, upstream = torch.randint(11, (8,)), torch.randn(8)
    ours, plain = hidden.clone().requires_grad_(), hidden.clone().requires_grad_()

    logp, entropy = TokenLogprobs.apply(ours, weight, target, 0.7)
    (logp * upstream).sum().backward()
    table = (plain @ weight.T / 0.7).log_softmax(-1)
    expected = table.gather(1, target[:, None])[:, 0]
    (expected * upstream).sum().backward()

    torch.testing.assert_close(logp, expected)
    torch.testing.assert_close(ours.grad, plain.grad)
    torch.testing.assert_close(entropy, -(table.exp() * table).sum(-1).detach())


def _sample(member: str, tokens: int) -> Sample:
    return Sample(member, (1,), (2,) * tokens, (0.0,) * tokens, 1.0)


def test_token_mean_weighs_every_token_of_a_member_alike() -> None:
    weights = token_weights([_sample("a", 3), _sample("a", 1), _sample("b", 2)], "token_mean")
    assert weights == [1 / 4, 1 / 4, 1 / 2]


def test_sequence_mean_weighs_every_sequence_of_a_member_alike() -> None:
    weights = token_weights([_sample("a", 3), _sample("a", 1), _sample("b", 2)], "sequence_mean")
    assert weights == [1 / 6, 1 / 2, 1 / 2]
