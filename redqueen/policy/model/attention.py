"""Causal attention over a flat batch of prompts and their continuations; each continuation sees its prompt and itself.

The prompt is computed once, however many continuations it has. Shape suffixes: N tokens, B prompts, P tokens of each, M
continuations of all of them, C longest continuation, K kv heads, G query heads of each, D head size, X = K x B,
Y = M / B x G x C, S = K x M, Z = G x C.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right

from redqueen.policy.kernels.dispatch import Kernels, kernels_of

# Sequences shorter than this share of the longest get a padded batch of their own.
_LEAST_FILL = 0.75


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """Consecutive rows of a batch: those of a prompt, then those of each of its continuations."""

    start: int
    """The prompt's first row."""
    prompt: int
    """The number of the prompt's tokens."""
    suffix_lengths: tuple[int, ...] = ()
    """The number of tokens of each continuation; may be 0."""

    @property
    def end(self) -> int:
        """The row after the last one."""
        return self.start + self.prompt + sum(self.suffix_lengths)


class SharedPrefixAttention:
    """Computes the attention of one batch (see `redqueen.policy.model.decoder.Attention`).

    `fused` takes torch's fused kernels (default: on a GPU), which never write the scores to memory. On a CPU plain
    products are faster, above all in the backward pass.
    """

    def __init__(self, prefixes: Sequence[SharedPrefix], device: torch.device, *, fused: bool | None = None) -> None:
        self.fused = device.type == "cuda" if fused is None else fused
        sequences: list[range] = []
        by_shape: dict[tuple[int, int], list[_Continued]] = {}
        for prefix in prefixes:
            continued = _continued(prefix)
            # A prompt, and a prompt with its only continuation, are plain sequences.
            if len(continued.suffixes) == 1:
                sequences.append(range(prefix.start, prefix.end))
                continue
            # The tokens of a prompt never see its continuations, so its own rows are a plain sequence as well.
            sequences.append(continued.prompt)
            # A batched product needs prompts of one length with equally many continuations each.
            if continued.suffixes:
                by_shape.setdefault((prefix.prompt, len(continued.suffixes)), []).append(continued)

        # The prompts' own rows come first: a prompt's gradient is written there, and its continuations add to it.
        self.parts = [_PaddedSequences([range(0)], group, device) for group in _similar(sequences, len)]
        for same_shape in by_shape.values():
            for group in _similar(same_shape, _longest_suffix):
                suffixes: list[range] = []
                for continued in group:
                    suffixes.extend(continued.suffixes)
                self.parts.append(_PaddedSequences([continued.prompt for continued in group], suffixes, device))
        # The fused path concatenates the parts' rows; `place_N` says where each row of the batch lies there.
        order = torch.cat([part.rows for part in self.parts])
        self.place_N = order.argsort().to(device)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Returns the mixed values [N, heads, D] for q [N, heads, D], k and v [N, K, D]."""
        del layer
        if not self.fused:
            return _Plain.apply(q, k, v, self.parts)
        return torch.cat([part.fused(q, k, v) for part in self.parts])[self.place_N]


@dataclass(frozen=True, slots=True)
class _Continued:
    """The rows of a prompt and of its continuations."""

    prompt: range
    """The prompt's rows."""
    suffixes: tuple[range, ...]
    """The rows of each continuation; empty continuations are left out."""


def _continued(prefix: SharedPrefix) -> _Continued:
    """Returns where the rows of `prefix` lie in the batch."""
    suffixes: list[range] = []
    start = prefix.start + prefix.prompt
    prompt = range(prefix.start, start)
    for length in prefix.suffix_lengths:
        if length:
            suffixes.append(range(start, start + length))
        start += length
    return _Continued(prompt, tuple(suffixes))


def _longest_suffix(continued: _Continued) -> int:
    """Returns the length of the longest continuation."""
    return max(map(len, continued.suffixes))


_Item = TypeVar("_Item")


def _similar(items: Iterable[_Item], length: Callable[[_Item], int]) -> Iterator[list[_Item]]:
    """Yields groups of items of similar length, the longest first."""
    # Every group costs one launch of each operation. Padding a sequence to at most 4/3 of its length is cheaper.
    group: list[_Item] = []
    for item in sorted(items, key=length, reverse=True):
        if group and length(item) < _LEAST_FILL * length(group[0]):
            yield group
            group = []
        group.append(item)
    if group:
        yield group


class _PaddedSequences:
    """Sequences as a padded batch. Each attends to its prompt and, causally, to itself.

    `prompt_BP` and `row_MC` are their rows in the batch, -1 where a sequence is shorter. All prompts have equally many
    rows, and M / B sequences share a prompt.
    """

    def __init__(self, prompts: Sequence[range], sequences: Sequence[range], device: torch.device) -> None:
        row_MC = torch.full((len(sequences), max(map(len, sequences))), -1)
        for row_C, sequence in zip(row_MC, sequences, strict=True):
            row_C[: len(sequence)] = torch.tensor(sequence)
        self.rows = row_MC[row_MC >= 0]
        # `nonzero` runs on the CPU, because on a GPU it would wait for the device to learn the size of its result.
        self.present = (row_MC.flatten() >= 0).nonzero()[:, 0].to(device)
        self.row_MC = row_MC.to(device)
        self.prompt_BP = torch.tensor([list(prompt) for prompt in prompts], dtype=torch.long, device=device)

    def forward(self, kernels: Kernels, q: Tensor, k: Tensor, v: Tensor, out: Tensor) -> tuple[Tensor, ...]:
        """Writes the mixed values of these rows to `out`; returns the tensors that `backward` needs."""
        heads = k.shape[1]
        # All continuations of a prompt multiply its keys as one matrix, so the prompt's keys are gathered once and not
        # once per continuation. Their own keys are multiplied sequence by sequence.
        q_XYD, q_SZD = self._by_prompt_and_sequence(kernels.gather(q, self.row_MC, heads))
        _, own_k = self._by_prompt_and_sequence(kernels.gather(k, self.row_MC, heads))
        _, own_v = self._by_prompt_and_sequence(kernels.gather(v, self.row_MC, heads))
        prompt_k = kernels.gather(k, self.prompt_BP, heads).flatten(0, 1).flatten(1, 2)
        prompt_v = kernels.gather(v, self.prompt_BP, heads).flatten(0, 1).flatten(1, 2)
        shared_XYP = torch.bmm(q_XYD, prompt_k.mT)
        own_SZC = torch.bmm(q_SZD, own_k.mT)
        # One softmax spans both kinds of scores and overwrites them, so no second copy of them exists.
        kernels.softmax_(shared_XYP, own_SZC, q.shape[2] ** -0.5)
        mixed_SZD = torch.bmm(own_SZC, own_v)
        mixed_SZD.view(q_XYD.shape).baddbmm_(shared_XYP, prompt_v)
        self._scatter(kernels, mixed_SZD, out)
        return q_XYD, own_k, own_v, prompt_k, prompt_v, shared_XYP, own_SZC

    def backward(
        self, kernels: Kernels, saved: tuple[Tensor, ...], dy: Tensor, dq: Tensor, dk: Tensor, dv: Tensor
    ) -> None:
        """Writes the gradients of the sequences' rows, and adds to those of the prompts' rows."""
        q_XYD, own_k, own_v, prompt_k, prompt_v, shared_XYP, own_SZC = saved
        heads = dk.shape[1]
        q_SZD = q_XYD.view(len(own_k), -1, own_k.shape[2])
        dy_XYD, dy_SZD = self._by_prompt_and_sequence(kernels.gather(dy, self.row_MC, heads))
        # d_shared and d_own hold the gradients of the weights first and those of the scores afterwards.
        d_shared = torch.bmm(dy_XYD, prompt_v.mT)
        d_own = torch.bmm(dy_SZD, own_v.mT)
        kernels.softmax_backward_(d_shared, d_own, shared_XYP, own_SZC, q_XYD.shape[2] ** -0.5)
        dq_SZD = torch.bmm(d_own, own_k)
        dq_SZD.view(q_XYD.shape).baddbmm_(d_shared, prompt_k)
        self._scatter(kernels, dq_SZD, dq)
        # Keys get their gradient from the scores and the queries, values from the weights and the output's gradient.
        for weights, x_SZD, grad in ((d_own, q_SZD, dk), (own_SZC, dy_SZD, dv)):
            self._scatter(kernels, torch.bmm(weights.mT, x_SZD), grad)
        # The same for the prompts. Each product sums over all continuations of a prompt, so the result is rounded and
        # added once and not once per continuation.
        for weights, x_XYD, grad in ((d_shared, q_XYD, dk), (shared_XYP, dy_XYD, dv)):
            of_prompt = torch.bmm(weights.mT, x_XYD).unflatten(0, (heads, -1))[:, :, None]
            kernels.scatter_(of_prompt, self.prompt_BP, grad, add=True)

    def _by_prompt_and_sequence(self, x_KMGCD: Tensor) -> tuple[Tensor, Tensor]:
        """Returns two views of one tensor: by kv head and prompt [X, Y, D], by kv head and sequence [S, Z, D]."""
        x_SZD = x_KMGCD.flatten(0, 1).flatten(1, 2)
        return x_SZD.view(len(x_KMGCD) * len(self.prompt_BP), -1, x_SZD.shape[2]), x_SZD

    def _scatter(self, kernels: Kernels, x_SZD: Tensor, out: Tensor) -> None:
        """Writes the sequences' results to their rows of `out` and drops the padding."""
        count, places = self.row_MC.shape
        x_KMGCD = x_SZD.view(-1, count, x_SZD.shape[1] // places, places, x_SZD.shape[2])
        kernels.scatter_(x_KMGCD, self.row_MC, out)

    def fused(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Returns the mixed values of `rows`, computed by torch's fused attention."""
        count, places = self.row_MC.shape
        row_MC = self.row_MC.clamp(min=0)
        missing_MC11 = (self.row_MC < 0)[..., None, None]
        prompt_MP = self.prompt_BP.repeat_interleave(count // len(self.prompt_BP), 0)

        def padded(x: Tensor) -> Tensor:
            # Padding is zero and not another row's values, so no gradient flows to another row.
            return torch.where(missing_MC11, 0, x[row_MC]).transpose(1, 2)

        keys = torch.cat([k[prompt_MP].transpose(1, 2), padded(k)], 2)
        values = torch.cat([v[prompt_MP].transpose(1, 2), padded(v)], 2)
        # The mask is aligned with the end of the keys, where a sequence's own places are, so it sees its whole prompt.
        bias = causal_lower_right(places, keys.shape[2])
        mixed = F.scaled_dot_product_attention(padded(q), keys, values, attn_mask=bias, enable_gqa=True)
        return mixed.transpose(1, 2).flatten(0, 1)[self.present]


class _Plain(torch.autograd.Function):
    """Computes attention by plain products and keeps all parts' weights for the backward pass."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, parts: list[_PaddedSequences]) -> Tensor:
        kernels = kernels_of(q)
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        saved = [part.forward(kernels, q, k, v, out) for part in parts]
        # Autograd keeps one flat list of tensors; every part returns equally many, so `backward` can split it again.
        ctx.save_for_backward(*itertools.chain.from_iterable(saved))
        ctx.kernels = kernels
        ctx.parts = parts
        ctx.heads = (q.shape[1], k.shape[1])
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (dy,) = grads
        saved = ctx.saved_tensors
        count = len(saved) // len(ctx.parts)
        heads, kv_heads = ctx.heads
        # These need no zeros. Every row belongs to the sequences of exactly one part, which writes it, and a part that
        # adds to a prompt's rows comes after the part that writes them.
        dq = dy.new_empty(len(dy), heads, dy.shape[2])
        dk = dy.new_empty(len(dy), kv_heads, dy.shape[2])
        dv = dy.new_empty(len(dy), kv_heads, dy.shape[2])
        for i, part in enumerate(ctx.parts):
            part.backward(ctx.kernels, saved[i * count : (i + 1) * count], dy, dq, dk, dv)
        return dq, dk, dv, None
