"""Causal attention over a flat batch of prefixes: a prompt and its continuations, each seeing the prompt and itself.

The prompt is computed once, whatever the number of its continuations. Shape suffixes: N tokens, B prompts, P tokens of
each, M continuations of all of them, C longest continuation, K kv heads, G query heads of each, D head size, X = K x B,
Y = M / B x G x C, S = K x M, Z = G x C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right

from redqueen.policy.kernels.attention_scores import gather, scatter, softmax_, softmax_backward_


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """Neighbouring rows of a batch: those of a prompt, then those of each continuation. Sizes in tokens.

    A suffix length may be 0.
    """

    start: int
    prompt: int
    suffix_lengths: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        return self.start + self.prompt + sum(self.suffix_lengths)


class SharedPrefixAttention:
    """The attention of one batch (see `redqueen.policy.model.decoder.Attention`).

    `fused` takes torch's fused kernels, which on a GPU never write the scores to memory; on a CPU plain products are
    faster, the backward pass above all.
    """

    def __init__(self, prefixes: Sequence[SharedPrefix], device: torch.device, *, fused: bool | None = None) -> None:
        self.fused = device.type == "cuda" if fused is None else fused
        alone: list[range] = []  # a prompt, and a prompt with its only continuation, are plain sequences
        shared: dict[tuple[int, int], list[_Tails]] = {}
        for prefix in prefixes:
            tails = tuple(tail for tail in prefix.suffix_lengths if tail)
            start = prefix.start + prefix.prompt
            if len(tails) == 1:
                alone.append(range(prefix.start, start + tails[0]))
                continue
            alone.append(range(prefix.start, start))
            if tails:
                starts = accumulate(tails, initial=start)
                rows = tuple(range(at, at + tail) for at, tail in zip(starts, tails, strict=False))
                shared.setdefault((prefix.prompt, len(tails)), []).append(_Tails(range(prefix.start, start), rows))
        # their prompts' own rows come first: what continuations add to a prompt's gradient is added to those
        self.parts = [_Part([range(0)], group, device) for group in _alike(alone, len)]
        for of_one_shape in shared.values():
            for group in _alike(of_one_shape, lambda tails: max(map(len, tails.rows))):
                rows = [row for tails in group for row in tails.rows]
                self.parts.append(_Part([tails.prompt for tails in group], rows, device))
        order = torch.cat([part.rows for part in self.parts])
        self.place_N = order.argsort().to(device)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        del layer
        if not self.fused:
            return _Plain.apply(q, k, v, self.parts)
        return torch.cat([part.fused(q, k, v) for part in self.parts])[self.place_N]


@dataclass(frozen=True, slots=True)
class _Tails:
    """A prompt's rows and those of its continuations."""

    prompt: range
    rows: tuple[range, ...]


_Item = TypeVar("_Item")


def _alike(items: Iterable[_Item], length: Callable[[_Item], int]) -> Iterator[list[_Item]]:
    """Groups in which nothing is shorter than 3/4 of the longest: padding costs less than calls for each would."""
    group: list[_Item] = []
    for item in sorted(items, key=length, reverse=True):
        if group and length(item) < 0.75 * length(group[0]):
            yield group
            group = []
        group.append(item)
    if group:
        yield group


class _Part:
    """Sequences as a padded batch: each attends to its prompt, of which all have equally many rows, and, causally, to
    itself. `prompt_BP` and `row_MC` are their rows in the batch, -1 where a sequence is shorter; M / B sequences share
    a prompt.
    """

    def __init__(self, prompts: Sequence[range], sequences: Sequence[range], device: torch.device) -> None:
        row_MC = torch.full((len(sequences), max(map(len, sequences))), -1)
        for row_C, sequence in zip(row_MC, sequences, strict=True):
            row_C[: len(sequence)] = torch.tensor(sequence)
        self.rows = row_MC[row_MC >= 0]
        self.there = (row_MC.flatten() >= 0).nonzero()[:, 0].to(device)  # here: on a GPU it would wait for the device
        self.row_MC = row_MC.to(device)
        self.prompt_BP = torch.tensor([list(prompt) for prompt in prompts], dtype=torch.long, device=device)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, out: Tensor) -> tuple[Tensor, ...]:
        """Writes the mixed values of its rows to `out`; returns what `backward` wants."""
        heads = k.shape[1]
        q_XYD, q_SZD = self._both(gather(q, self.row_MC, heads))
        own_k, own_v = (self._both(gather(t, self.row_MC, heads))[1] for t in (k, v))
        prompt_k, prompt_v = (gather(t, self.prompt_BP, heads).flatten(0, 1).flatten(1, 2) for t in (k, v))
        shared_XYP, own_SZC = torch.bmm(q_XYD, prompt_k.mT), torch.bmm(q_SZD, own_k.mT)
        softmax_(shared_XYP, own_SZC, q.shape[2] ** -0.5)
        mixed_SZD = torch.bmm(own_SZC, own_v)
        mixed_SZD.view(q_XYD.shape).baddbmm_(shared_XYP, prompt_v)
        self._scatter(mixed_SZD, out)
        return q_XYD, own_k, own_v, prompt_k, prompt_v, shared_XYP, own_SZC

    def backward(self, saved: tuple[Tensor, ...], dy: Tensor, dq: Tensor, dk: Tensor, dv: Tensor) -> None:
        """Writes the gradients of its own rows, and adds to those of its prompts."""
        q_XYD, own_k, own_v, prompt_k, prompt_v, shared_XYP, own_SZC = saved
        heads, q_SZD = dk.shape[1], q_XYD.view(len(own_k), -1, own_k.shape[2])
        dy_XYD, dy_SZD = self._both(gather(dy, self.row_MC, heads))
        d_shared, d_own = torch.bmm(dy_XYD, prompt_v.mT), torch.bmm(dy_SZD, own_v.mT)
        softmax_backward_(d_shared, d_own, shared_XYP, own_SZC, q_XYD.shape[2] ** -0.5)
        dq_SZD = torch.bmm(d_own, own_k)
        dq_SZD.view(q_XYD.shape).baddbmm_(d_shared, prompt_k)
        self._scatter(dq_SZD, dq)
        for weights, at, grad in ((d_own, q_SZD, dk), (own_SZC, dy_SZD, dv)):
            self._scatter(torch.bmm(weights.mT, at), grad)
        for weights, at, grad in ((d_shared, q_XYD, dk), (shared_XYP, dy_XYD, dv)):
            of_prompt = torch.bmm(weights.mT, at).unflatten(0, (heads, -1))[:, :, None]
            scatter(of_prompt, self.prompt_BP, grad, add=True)

    def _both(self, x_KMGCD: Tensor) -> tuple[Tensor, Tensor]:
        """The same memory by kv head and prompt [X, Y, D], and by kv head and sequence [S, Z, D]."""
        x_SZD = x_KMGCD.flatten(0, 1).flatten(1, 2)
        return x_SZD.view(len(x_KMGCD) * len(self.prompt_BP), -1, x_SZD.shape[2]), x_SZD

    def _scatter(self, x_SZD: Tensor, out: Tensor) -> None:
        count, places = self.row_MC.shape
        scatter(x_SZD.view(-1, count, x_SZD.shape[1] // places, places, x_SZD.shape[2]), self.row_MC, out)

    def fused(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The mixed values of `rows`."""
        (count, places), prompts = self.row_MC.shape, len(self.prompt_BP)
        at_MC, late_MC11 = self.row_MC.clamp(min=0), (self.row_MC < 0)[..., None, None]
        prompt_MP = self.prompt_BP.repeat_interleave(count // prompts, 0)
        padded_q, *own = (torch.where(late_MC11, 0, t[at_MC]).transpose(1, 2) for t in (q, k, v))
        keys, values = (torch.cat([t[prompt_MP].transpose(1, 2), o], 2) for t, o in zip((k, v), own, strict=True))
        bias = causal_lower_right(places, keys.shape[2])
        mixed = F.scaled_dot_product_attention(padded_q, keys, values, attn_mask=bias, enable_gqa=True)
        return mixed.transpose(1, 2).flatten(0, 1)[self.there]


class _Plain(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, parts: list[_Part]) -> Tensor:
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        saved = [part.forward(q, k, v, out) for part in parts]
        ctx.save_for_backward(*(tensor for tensors in saved for tensor in tensors))
        ctx.parts, ctx.heads = parts, (q.shape[1], k.shape[1])
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (dy,), saved = grads, ctx.saved_tensors
        each, (heads, kv_heads) = len(saved) // len(ctx.parts), ctx.heads
        dq, dk, dv = (dy.new_empty(len(dy), count, dy.shape[2]) for count in (heads, kv_heads, kv_heads))
        for i, part in enumerate(ctx.parts):
            part.backward(saved[i * each : (i + 1) * each], dy, dq, dk, dv)
        return dq, dk, dv, None
