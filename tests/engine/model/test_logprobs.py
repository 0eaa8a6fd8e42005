"""Compares log-probabilities computed in chunks with a plain log-softmax."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from redqueen.engine.kernels import Kernels
from redqueen.engine.model.forward import TokenLogprobs


# float64 uses torch's operations, the other dtypes use the compiled kernels.
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-6), (torch.float32, 1e-5), (torch.bfloat16, 0.03)])
def test_log_probabilities_and_gradient_equal_plain_log_softmax(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, tolerance: float
) -> None:
    monkeypatch.setattr(Kernels, "logit_rows", 3)
    torch.manual_seed(0)
    hidden = torch.randn(8, 5).to(dtype)
    weight = torch.randn(11, 5).to(dtype)
    target = torch.randint(11, (8,))
    upstream = torch.randn(8)
    ours = hidden.clone().requires_grad_()
    plain = hidden.clone().requires_grad_()

    logp = TokenLogprobs.apply(ours, weight, target, 0.7)
    (logp * upstream).sum().backward()
    table = (plain.double() @ weight.double().T / 0.7).log_softmax(-1)
    expected = table.gather(1, target[:, None])[:, 0]
    (expected * upstream).sum().backward()

    close = partial(torch.testing.assert_close, atol=tolerance, rtol=tolerance)
    assert logp.dtype == torch.float32
    close(logp.double(), expected)
    close(ours.grad, plain.grad)


def test_a_target_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(IndexError):
        TokenLogprobs.apply(torch.randn(1, 5), torch.randn(11, 5), torch.tensor([11]), 1.0)
