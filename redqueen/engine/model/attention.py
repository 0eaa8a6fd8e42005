"""Causal attention over a flat batch of prompts and their continuations; each continuation sees its prompt and itself.

The prompt is computed once, however many continuations it has. Shape suffixes: N tokens, K kv heads, D head size, M
keys of all sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from typing import TypeVar

import torch
from torch import Tensor

from redqueen.engine.kernels.dispatch import kernels_of
from redqueen.engine.kernels.flash import Sequences, takes_heads_of
from redqueen.engine.kernels.transfer import to_device
from redqueen.engine.model.plain_attention import PaddedSequences, PlainAttention

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
