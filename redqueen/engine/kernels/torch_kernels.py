"""The kernels in torch's operations, for any device and dtype.

Shape suffixes as in `redqueen.engine.kernels.interface`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from redqueen.engine.kernels.interface import Kernels
from redqueen.engine.kernels.torch_ops import NATS_PER_BIT, Take


class TorchKernels(Kernels):
    """See `redqueen.engine.kernels.interface.Kernels`."""

    def rotation(self, cos: Tensor, sin: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Returns cos and sin [N, 1, D], rounded to `dtype` as in transformers."""
        return _per_head(cos, dtype), _per_head(sin, dtype)

    def take(self, x_NH: Tensor, index_M: Tensor) -> Tensor:
        return Take.apply(self.ops, x_NH, index_M)

    def gather(self, x: Tensor, row_MC: Tensor, kv_heads: int) -> Tensor:
        # Padding has row -1. Indexing would read the last row there, so it reads row 0, and zeros replace what it read.
        rows_MCHD = torch.where((row_MC < 0)[..., None, None], 0, x[row_MC.clamp(min=0)])
        return rows_MCHD.unflatten(2, (kv_heads, -1)).permute(2, 0, 3, 1, 4).contiguous()

    def scatter_(self, x_KMGCD: Tensor, row_MC: Tensor, out: Tensor, *, add: bool = False) -> None:
        present_MC = row_MC >= 0
        rows = x_KMGCD.permute(1, 3, 0, 2, 4).flatten(2, 3)[present_MC]
        out[row_MC[present_MC]] = rows + out[row_MC[present_MC]] if add else rows

    def softmax_(self, shared: Tensor, own: Tensor, scale: float) -> None:
        # `flatten` returns views of contiguous scores, so the writes below reach the caller's tensors.
        shared_XP = shared.flatten(0, 1)
        own_XC = own.flatten(0, 1)
        prompt = shared_XP.shape[1]
        places = own_XC.shape[1]
        late_CC = torch.ones(places, places, dtype=torch.bool, device=own.device).triu(1)
        own_XC.view(-1, places, places).masked_fill_(late_CC, float("-inf"))
        weights = (scale * torch.cat([shared_XP, own_XC], 1)).softmax(-1)
        shared_XP.copy_(weights[:, :prompt])
        own_XC.copy_(weights[:, prompt:])

    def softmax_backward_(self, d_shared: Tensor, d_own: Tensor, shared: Tensor, own: Tensor, scale: float) -> None:
        d_shared_XP, d_own_XC = d_shared.flatten(0, 1), d_own.flatten(0, 1)
        shared_XP, own_XC = shared.flatten(0, 1), own.flatten(0, 1)
        # For weights w = softmax(scale * scores), the gradient of the scores is scale * w * (dw - sum(w * dw)). The sum
        # runs over a row's prompt and its own sequence.
        along_X1 = (d_shared_XP * shared_XP).sum(1, keepdim=True) + (d_own_XC * own_XC).sum(1, keepdim=True)
        d_shared_XP.sub_(along_X1).mul_(shared_XP).mul_(scale)
        d_own_XC.sub_(along_X1).mul_(own_XC).mul_(scale)

    def scratch(self, logits_CV: Tensor) -> tuple[Tensor, ...]:
        """Returns two tensors of the logits' shape, in fp32."""
        return tuple(logits_CV.new_empty(logits_CV.shape, dtype=torch.float32) for _ in range(2))

    def token_shares_(
        self,
        logits_CV: Tensor,
        target_C: Tensor,
        temperature: float,
        logp_C: Tensor,
        scratch: tuple[Tensor, ...],
    ) -> Tensor:
        # The last chunk may be smaller than the scratch memory. Logits are taken relative to the row's largest, so no
        # power exceeds 1 and none overflows.
        bits_CV, mass_CV = (memory[: len(logits_CV)] for memory in scratch)
        bits_CV.copy_(logits_CV).mul_(1 / (temperature * NATS_PER_BIT))
        top_C1 = bits_CV.amax(-1, keepdim=True)
        chosen_C = bits_CV.gather(1, target_C[:, None])[:, 0] - top_C1[:, 0]
        torch.exp2(bits_CV.sub_(top_C1), out=mass_CV)
        total_C = mass_CV.sum(-1)
        logp_C.copy_((chosen_C - total_C.log2()) * NATS_PER_BIT)
        logits_CV.copy_(mass_CV)
        return total_C


def _per_head(half_ND: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns [N, 1, D] of `dtype` from [N, D/2], which both halves of a head share."""
    return half_ND.repeat(1, 2).to(dtype)[:, None]
