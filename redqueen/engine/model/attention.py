"""Causal attention over a flat batch of prompts and their continuations; each continuation sees its prompt and itself.

The prompt is computed once, however many continuations it has. Shape suffixes: N tokens, K kv heads, D head size, M
keys of all sequences.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, TypeVar

import torch
from torch import Tensor

from redqueen.engine.kernels import Kernels
from redqueen.engine.kernels.dispatch import kernels_of
from redqueen.engine.kernels.flash import Sequences, takes_heads_of
from redqueen.engine.tensor_memory import to_device

# Attention by plain products over padded sequences: what is fastest on a CPU, above all in the backward pass.
#
# Shape suffixes: N tokens, B prompts, P tokens of each, M continuations of all of them, C longest continuation, K kv
# heads, G query heads of each, D head size, X = K x B, Y = M / B x G x C, S = K x M, Z = G x C.


class PaddedSequences:
    """Sequences as a padded batch. Each attends to its prompt and, causally, to itself.

    `prompt_BP` and `row_MC` are their rows in the batch, -1 where a sequence is shorter. All prompts have equally many
    rows, and M / B sequences share a prompt.
    """

    def __init__(self, prompts: Sequence[range], sequences: Sequence[range], device: torch.device) -> None:
        row_MC = torch.full((len(sequences), max(map(len, sequences))), -1)
        for row_C, sequence in zip(row_MC, sequences, strict=True):
            row_C[: len(sequence)] = torch.tensor(sequence)
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


class PlainAttention(torch.autograd.Function):
    """Computes attention by plain products and keeps all parts' weights for the backward pass."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, parts: list[PaddedSequences]) -> Tensor:
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

    @property
    def rows(self) -> range:
        """The prompt's rows."""
        return range(self.start, self.start + self.prompt)

    @property
    def suffixes(self) -> list[range]:
        """The rows of each continuation that has any."""
        starts = accumulate(self.suffix_lengths, initial=self.start + self.prompt)
        pairs = zip(starts, self.suffix_lengths, strict=False)
        return [range(start, start + length) for start, length in pairs if length]


class SharedPrefixAttention:
    """Computes the attention of one batch (see `redqueen.engine.model.decoder.Attention`).

    On a GPU it is one call of flash attention over sequences of any lengths, elsewhere plain products over padded ones.
    """

    def __init__(self, prefixes: Sequence[SharedPrefix], device: torch.device) -> None:
        self.prefixes = prefixes
        self.device = device

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Returns the mixed values [N, heads, D] for q [N, heads, D], k and v [N, K, D]."""
        del layer
        varlen = kernels_of(q).varlen
        if varlen is not None and takes_heads_of(q.shape[2]):
            return varlen(q, k, v, self.sequences)
        return PlainAttention.apply(q, k, v, self.parts)

    @cached_property
    def sequences(self) -> Sequences:
        """The batch's sequences, none of them padded; made by the first layer that needs them."""
        queries: list[range] = []
        keys: list[tuple[range, ...]] = []
        for prefix in self.prefixes:
            suffixes = prefix.suffixes
            if len(suffixes) == 1:
                # A prompt and its only continuation are one sequence.
                whole = range(prefix.start, suffixes[0].stop)
                queries.append(whole)
                keys.append((whole,))
                continue
            queries += [prefix.rows, *suffixes]
            keys += [(prefix.rows,), *((prefix.rows, suffix) for suffix in suffixes)]

        key_rows_M = torch.cat([torch.arange(rows.start, rows.stop) for parts in keys for rows in parts])
        query_lengths = [len(rows) for rows in queries]
        key_lengths = [sum(map(len, parts)) for parts in keys]
        in_place = len(key_rows_M) == sum(query_lengths)
        return Sequences(
            key_rows_M=None if in_place else to_device(key_rows_M, self.device),
            query_ends=to_device(_ends(query_lengths), self.device),
            key_ends=to_device(_ends(key_lengths), self.device),
            most_queries=max(query_lengths),
            most_keys=max(key_lengths),
        )

    @cached_property
    def parts(self) -> list[PaddedSequences]:
        """The batch as padded batches of similar sequences; made by the first layer that needs them."""
        sequences: list[range] = []
        by_shape: dict[tuple[int, int], list[SharedPrefix]] = {}
        for prefix in self.prefixes:
            suffixes = prefix.suffixes
            # A prompt, and a prompt with its only continuation, are plain sequences.
            if len(suffixes) == 1:
                sequences.append(range(prefix.start, suffixes[0].stop))
                continue
            # The tokens of a prompt never see its continuations, so its own rows are a plain sequence as well.
            sequences.append(prefix.rows)
            # A batched product needs prompts of one length with equally many continuations each.
            if suffixes:
                by_shape.setdefault((prefix.prompt, len(suffixes)), []).append(prefix)

        # The prompts' own rows come first: a prompt's gradient is written there, and its continuations add to it.
        parts = [PaddedSequences([range(0)], group, self.device) for group in _similar(sequences, len)]
        for same_shape in by_shape.values():
            for group in _similar(same_shape, lambda prefix: max(prefix.suffix_lengths)):
                rows = list(chain.from_iterable(prefix.suffixes for prefix in group))
                parts.append(PaddedSequences([prefix.rows for prefix in group], rows, self.device))
        return parts


def _ends(lengths: Sequence[int]) -> Tensor:
    """Returns 0 and the end of each of these consecutive parts, in int32."""
    return torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)


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
