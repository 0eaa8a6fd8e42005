"""What attention does between its products: rows to heads and back, and the softmax; by compiled loops or by torch.

Shape suffixes: N rows, D head size, K kv heads, M sequences, G query heads of each kv head, C places of a sequence, P
tokens of a prompt, X = K x M x G x C.
"""

from __future__ import annotations

import torch
from torch import Tensor

from redqueen.policy.kernels.cpu import attention as loops
from redqueen.policy.kernels.cpu.floats import loops_suit, raw


def gather(x: Tensor, row_MC: Tensor, kv_heads: int) -> Tensor:
    """[K, M, G, C, D] from the rows `row_MC` of x [N, heads, D]; zeros where there is no row (-1)."""
    (sequences, places), (_, heads, size) = row_MC.shape, x.shape
    shape = (kv_heads, sequences, heads // kv_heads, places, size)
    if not loops_suit(x):
        found = torch.where((row_MC < 0)[..., None, None], 0, x[row_MC.clamp(min=0)])
        return found.unflatten(2, (kv_heads, -1)).permute(2, 0, 3, 1, 4).contiguous()
    out = x.new_empty(shape)
    loops.gather(raw(x), raw(row_MC), raw(out))
    return out


def scatter(x_KMGCD: Tensor, row_MC: Tensor, out: Tensor, *, add: bool = False) -> None:
    """The way back to the rows `row_MC` of `out` [N, heads, D], or added to them."""
    if loops_suit(x_KMGCD):
        loops.scatter(raw(x_KMGCD), raw(row_MC), raw(out), add)
        return
    there = row_MC >= 0
    rows = x_KMGCD.permute(1, 3, 0, 2, 4).flatten(2, 3)[there]
    out[row_MC[there]] = rows + out[row_MC[there]] if add else rows


def softmax_(shared: Tensor, own: Tensor, scale: float) -> None:
    """In place: the weights of scale x scores, together over the prompt [K, M x G x C, P] and a sequence's own places
    up to the row's [K x M, G x C, C].
    """
    shared_XP, own_XC = shared.flatten(0, 1), own.flatten(0, 1)
    if loops_suit(own):
        loops.softmax(raw(shared_XP), raw(own_XC), scale)
        return
    prompt, places = shared_XP.shape[1], own_XC.shape[1]
    late_CC = torch.ones(places, places, dtype=torch.bool, device=own.device).triu(1)
    own_XC.view(-1, places, places).masked_fill_(late_CC, float("-inf"))
    weights = (scale * torch.cat([shared_XP, own_XC], 1)).softmax(-1)
    shared_XP.copy_(weights[:, :prompt])
    own_XC.copy_(weights[:, prompt:])


def softmax_backward_(d_shared: Tensor, d_own: Tensor, shared: Tensor, own: Tensor, scale: float) -> None:
    """In place: from the gradients of the weights those of the scores."""
    d_shared_XP, d_own_XC, shared_XP, own_XC = (x.flatten(0, 1) for x in (d_shared, d_own, shared, own))
    if loops_suit(own):
        loops.softmax_backward(raw(d_shared_XP), raw(d_own_XC), raw(shared_XP), raw(own_XC), scale)
        return
    along_X1 = (d_shared_XP * shared_XP).sum(1, keepdim=True) + (d_own_XC * own_XC).sum(1, keepdim=True)
    d_shared_XP.sub_(along_X1).mul_(shared_XP).mul_(scale)
    d_own_XC.sub_(along_X1).mul_(own_XC).mul_(scale)
