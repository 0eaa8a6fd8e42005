"""Causal attention over a flat batch of bundles: a prompt and its continuations, each seeing the prompt and itself.

The prompt is computed once, whatever the number of its continuations. Shape suffixes: N tokens, P prompt tokens,
C longest continuation, M continuations, K kv heads, G query heads of each, D head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right


@dataclass(frozen=True, slots=True)
class Bundle:
    """Neighbouring rows of a batch: a prompt's, then those of each continuation. Sizes in tokens; `tails` may be 0."""

    start: int
    prompt: int
    tails: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        return self.start + self.prompt + sum(self.tails)


class BundleAttention:
    """The attention of one batch (see `redqueen.policy.decoder.Attention`).

    `fused` takes torch's fused kernels, which on a GPU never write the scores to memory; on a CPU plain products are
    faster, the backward pass above all.
    """

    def __init__(self, bundles: Sequence[Bundle], device: torch.device, *, fused: bool | None = None) -> None:
        self.fused = device.type == "cuda" if fused is None else fused
        self.parts: list[_Part] = []
        for bundle in bundles:
            tails = tuple(tail for tail in bundle.tails if tail)
            if len(tails) == 1:  # a prompt with one continuation is one plain sequence
                self.parts.append(_Sequence(bundle.start, bundle.prompt + tails[0]))
                continue
            self.parts.append(_Sequence(bundle.start, bundle.prompt))
            if tails:
                self.parts.append(_Tails(bundle.start, bundle.prompt, tails, device))
        longest = max(part.width for part in self.parts)
        self.mask = torch.full((longest, longest), float("-inf"), device=device).triu_(1)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        del layer
        if not self.fused:
            return _Plain.apply(q, k, v, self.parts, self.mask.to(q.dtype))
        return torch.cat([part.fused(q, k, v) for part in self.parts])


class _Part(Protocol):
    width: int

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, out: Tensor) -> Tensor:
        """Writes the mixed values of its rows to `out`; returns the attention weights."""
        ...

    def backward(self, saved: _Saved, weights: Tensor, dy: Tensor, grads: _Saved) -> None:
        """Writes to the gradient of q, and adds to those of k and v, of the rows that it reads."""
        ...

    def fused(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The mixed values of its rows."""
        ...


_Saved = tuple[Tensor, Tensor, Tensor]


class _Sequence:
    """Rows that attend to themselves, causally."""

    def __init__(self, start: int, length: int) -> None:
        self.rows, self.width = slice(start, start + length), length

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, out: Tensor) -> Tensor:
        q_KND, k_KND, v_KND = self._by_head(q, k) * q.shape[-1] ** -0.5, _rows(k, self.rows), _rows(v, self.rows)
        scores = torch.bmm(q_KND, k_KND.mT)
        scores.view(-1, self.width, self.width).add_(mask[: self.width, : self.width])
        weights = scores.softmax(-1)
        out[self.rows] = self._by_row(torch.bmm(weights, v_KND), q)
        return weights

    def backward(self, saved: _Saved, weights: Tensor, dy: Tensor, grads: _Saved) -> None:
        (q, k, v), (dq, dk, dv), scale = saved, grads, saved[0].shape[-1] ** -0.5
        dy_KND = self._by_head(dy, k)
        dv[self.rows] += torch.bmm(weights.mT, dy_KND).transpose(0, 1)
        d_scores = _softmax_backward(torch.bmm(dy_KND, _rows(v, self.rows).mT), weights)
        dq[self.rows] = self._by_row(torch.bmm(d_scores, _rows(k, self.rows)), q) * scale
        dk[self.rows] += torch.bmm(d_scores.mT, self._by_head(q, k) * scale).transpose(0, 1)

    def fused(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return _sdpa(q[None, self.rows], k[None, self.rows], v[None, self.rows], is_causal=True)[0]

    def _by_head(self, q: Tensor, k: Tensor) -> Tensor:
        """[K, G x P, D]: a kv head's query heads one after the other."""
        heads, size = k.shape[1], q.shape[-1]
        return q[self.rows].view(self.width, heads, -1, size).permute(1, 2, 0, 3).reshape(heads, -1, size)

    def _by_row(self, mixed: Tensor, q: Tensor) -> Tensor:
        heads, size = len(mixed), q.shape[-1]
        return mixed.view(heads, -1, self.width, size).permute(2, 0, 1, 3).reshape(self.width, -1, size)


class _Tails:
    """A bundle's continuations as a padded batch [M, C]: each attends to the prompt and, causally, to itself."""

    def __init__(self, start: int, prompt: int, tails: tuple[int, ...], device: torch.device) -> None:
        self.prompt = slice(start, start + prompt)
        self.rows = slice(start + prompt, start + prompt + sum(tails))
        self.count, self.width = len(tails), max(tails)
        at = [m * self.width + i for m, tail in enumerate(tails) for i in range(tail)]
        self.at = None if len(at) == self.count * self.width else torch.tensor(at, device=device)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, out: Tensor) -> Tensor:
        q_KXD, own_k, own_v = self._by_head(q, k) * q.shape[-1] ** -0.5, self._own(k), self._own(v)
        own = torch.bmm(q_KXD.reshape(len(own_k), -1, q.shape[-1]), own_k.mT)
        own.view(-1, self.width, self.width).add_(mask[: self.width, : self.width])
        shared = torch.bmm(q_KXD, _rows(k, self.prompt).mT)
        weights = torch.cat([shared, own.view(*shared.shape[:2], -1)], -1).softmax(-1)
        on_prompt, on_own = self._split(weights, own_k)
        mixed = torch.bmm(on_prompt, _rows(v, self.prompt))
        mixed.view(len(own_k), -1, q.shape[-1]).baddbmm_(on_own, own_v)
        out[self.rows] = self._by_row(mixed, q)
        return weights

    def backward(self, saved: _Saved, weights: Tensor, dy: Tensor, grads: _Saved) -> None:
        (q, k, v), (dq, dk, dv), size = saved, grads, saved[0].shape[-1]
        own_k, own_v, dy_KXD = self._own(k), self._own(v), self._by_head(dy, k)
        dy_own, scaled = dy_KXD.reshape(len(own_k), -1, size), self._by_head(q, k) * size**-0.5
        on_prompt, on_own = self._split(weights, own_k)
        dv[self.prompt] += torch.bmm(on_prompt.mT, dy_KXD).transpose(0, 1)
        dv[self.rows] = self._own_rows(torch.bmm(on_own.mT, dy_own), v)
        d_own = torch.bmm(dy_own, own_v.mT).view(*weights.shape[:2], -1)
        d_weights = torch.cat([torch.bmm(dy_KXD, _rows(v, self.prompt).mT), d_own], -1)
        d_prompt, d_own = self._split(_softmax_backward(d_weights, weights), own_k)
        dq_KXD = torch.bmm(d_prompt, _rows(k, self.prompt))
        dq_KXD.view(len(own_k), -1, size).baddbmm_(d_own, own_k)
        dq[self.rows] = self._by_row(dq_KXD, q) * size**-0.5
        dk[self.prompt] += torch.bmm(d_prompt.mT, scaled).transpose(0, 1)
        dk[self.rows] = self._own_rows(torch.bmm(d_own.mT, scaled.reshape(len(own_k), -1, size)), k)

    def fused(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = (torch.cat([t[self.prompt].expand(self.count, -1, -1, -1), self._padded(t)], 1) for t in (k, v))
        bias = causal_lower_right(self.width, keys.shape[1])
        return self._rows_of(_sdpa(self._padded(q), keys, values, attn_mask=bias))

    def _padded(self, t: Tensor) -> Tensor:
        """[M, C, ...] from the rows of [N, ...]; zeros where a continuation is shorter."""
        own = t[self.rows]
        if self.at is not None:
            own = own.new_zeros(self.count * self.width, *own.shape[1:]).index_copy(0, self.at, own)
        return own.reshape(self.count, self.width, *own.shape[1:])

    def _rows_of(self, padded: Tensor) -> Tensor:
        flat = padded.flatten(0, 1)
        return flat if self.at is None else flat[self.at]

    def _by_head(self, q: Tensor, k: Tensor) -> Tensor:
        """[K, M x G x C, D]."""
        heads, size = k.shape[1], q.shape[-1]
        split = self._padded(q).view(self.count, self.width, heads, -1, size)
        return split.permute(2, 0, 3, 1, 4).reshape(heads, -1, size)

    def _by_row(self, mixed: Tensor, q: Tensor) -> Tensor:
        heads, size = len(mixed), q.shape[-1]
        split = mixed.view(heads, self.count, -1, self.width, size).permute(1, 3, 0, 2, 4)
        return self._rows_of(split.reshape(self.count, self.width, -1, size))

    def _own(self, k: Tensor) -> Tensor:
        """[K x M, C, D]."""
        return self._padded(k).permute(2, 0, 1, 3).reshape(-1, self.width, k.shape[-1])

    def _own_rows(self, own: Tensor, k: Tensor) -> Tensor:
        return self._rows_of(own.view(k.shape[1], self.count, self.width, -1).permute(1, 2, 0, 3))

    def _split(self, weights: Tensor, own_k: Tensor) -> tuple[Tensor, Tensor]:
        """Weights on the prompt [K, M x G x C, P] and on each continuation itself [K x M, G x C, C]."""
        on_prompt, on_own = weights.split([weights.shape[-1] - self.width, self.width], -1)
        return on_prompt, on_own.reshape(len(own_k), -1, self.width)


class _Plain(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, parts: list[_Part], mask: Tensor) -> Tensor:
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        weights = [part.forward(q, k, v, mask, out) for part in parts]
        ctx.save_for_backward(q, k, v, *weights)
        ctx.parts = parts
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, *weights = ctx.saved_tensors
        made = (torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v))
        for part, own in zip(ctx.parts, weights, strict=True):
            part.backward((q, k, v), own, grads[0], made)
        return *made, None, None


def _rows(k: Tensor, rows: slice) -> Tensor:
    """[K, rows, D]."""
    return k[rows].transpose(0, 1)


def _softmax_backward(d_weights: Tensor, weights: Tensor) -> Tensor:
    return torch.ops.aten._softmax_backward_data(d_weights, weights, -1, weights.dtype)


def _sdpa(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    """[batch, tokens, heads, D] in and out."""
    mixed = F.scaled_dot_product_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), enable_gqa=True, **options
    )
    return mixed.transpose(1, 2)
