"""Prompts and decoding steps of a hosted decoder, with transformers' own cache of keys and values.

A row's tokens end where those of all rows end, as in transformers' own batches: the differences of their places are
those of their positions, so its masks are right for sliding windows too. In front of a row lies what its mask hides.

Shape suffixes: N rows of the flat batch, P prompts, R rows, T tokens, W places of the cache, H hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import transformers
from torch import Tensor
from torch.nn import functional as F

from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.hosted import HostedDecoder
from redqueen.engine.sampling.kv_cache import PrefillEntry
from redqueen.engine.tensor_memory import to_device

# So many places that no row uses any more are worth copying the others.
_SPARE = 64


class HostedDecoding:
    """The cache and the decoding step of a batch."""

    recordable = False

    def __init__(self, decoder: HostedDecoder, bank: AdapterBank, rows: int) -> None:
        """`rows` is the most rows at a time."""
        self.decoder = decoder
        self.bank = bank
        self.products = bank.decoding_products(rows)
        # Every layer keeps all tokens: a window's layer would drop them by places, which move when a row is longer.
        self.cache: Any = transformers.DynamicCache()
        device = bank.masters.device
        self.length_R = torch.zeros(rows, dtype=torch.long, device=device)
        self.limit_R = torch.zeros(rows, dtype=torch.long, device=device)
        self.width = 0
        self.rows = 0

    def prefill(
        self, ids_N: Tensor, position_N: Tensor, entries: Sequence[PrefillEntry], slots: Sequence[int]
    ) -> Tensor:
        """Computes prompts, sorted by slot, into the cache of the rows that continue them; returns states [N, H]."""
        # Positions follow from the prompts' lengths.
        del position_N
        device = ids_N.device
        lengths = [entry.prefix.prompt for entry in entries]
        longest = max(lengths)
        start_P1 = torch.tensor([entry.prefix.start for entry in entries])[:, None]
        spare_P1 = longest - torch.tensor(lengths)[:, None]
        at_PT = torch.arange(longest) - spare_P1
        seen_PT = to_device(at_PT >= 0, device)
        at_PT = at_PT.clamp_(min=0)
        row_PT = to_device(start_P1 + at_PT, device)

        made: Any = transformers.DynamicCache()
        hidden_PTH = self.decoder.run(
            self.bank.rows(slots, [longest] * len(slots)),
            input_ids=ids_N[row_PT],
            attention_mask=seen_PT.long(),
            position_ids=to_device(at_PT, device),
            past_key_values=made,
            use_cache=True,
        )
        self._insert(made, longest, entries)
        return hidden_PTH[seen_PT]

    def _insert(self, made: Any, longest: int, entries: Sequence[PrefillEntry]) -> None:
        """Copies the keys and values of prompts to the rows that continue them."""
        sources: list[int] = []
        targets: list[int] = []
        lengths: list[int] = []
        for index, entry in enumerate(entries):
            sources += [index] * len(entry.rows)
            targets += entry.rows
            lengths += [entry.prefix.prompt] * len(entry.rows)
        per_row = to_device(torch.tensor([sources, targets, lengths]), self.length_R.device)
        source_M, target_M, length_M = per_row
        self.length_R[target_M] = length_M

        present = len(self.cache.layers[0].keys) if self.width else 0
        rows = max(present, max(targets) + 1)
        self.width = max(self.width, longest)
        for index, new in enumerate(made.layers):
            layer: Any = self.cache.layers[index] if present else new
            placed: list[Tensor] = []
            for name in ("keys", "values"):
                new_PKTD: Tensor = getattr(new, name)
                old = getattr(layer, name) if present else new_PKTD[:0]
                whole = _widened(old, rows, self.width)
                whole[target_M] = _widened(new_PKTD, len(new_PKTD), self.width)[source_M]
                placed.append(whole)
            if present:
                layer.keys, layer.values = placed
            else:
                self.cache.update(*placed, index)

    def begin(self, rows: Sequence[int], prompt: int, most: Sequence[int]) -> None:
        """Does nothing: the cache grows when a prompt is computed."""

    def reserve(self, rows: int, steps: int) -> bool:
        """Returns true: the cache grows with each step."""
        del rows, steps
        return True

    def count(self, rows: int) -> None:
        """Does nothing: rows are counted on the device."""

    def end(self, rows: Sequence[int]) -> None:
        row_R = to_device(torch.tensor(rows), self.length_R.device)
        self.length_R[row_R] = 0
        self.limit_R[row_R] = 0

    def move(self, sources: Sequence[int], targets: Sequence[int], tokens: int) -> None:
        """Copies rows to other places, each row of `sources` to the one of `targets`, of at most `tokens` tokens."""
        del tokens
        source_M, target_M = to_device(torch.tensor([sources, targets]), self.length_R.device)
        for layer in self.cache.layers:
            for tensor in (layer.keys, layer.values):
                tensor[target_M] = tensor[source_M]
        for per_row in (self.length_R, self.limit_R):
            per_row[target_M] = per_row[source_M]

    def assign_rows(self, slots: Sequence[int]) -> None:
        self.rows = len(slots)
        self.products.assign(slots)
        self._trim(_SPARE)

    def _trim(self, spare: int) -> None:
        """Drops the places in front that no row uses, if there are at least `spare` of them."""
        used = int(self.length_R[: self.rows].max())
        if self.width - used >= spare:
            for layer in self.cache.layers:
                layer.keys = layer.keys[:, :, -used:]
                layer.values = layer.values[:, :, -used:]
            self.width = used

    def __call__(self, token_R: Tensor) -> Tensor:
        """Appends a token to each of the first R rows and returns its last hidden states [R, H]."""
        rows = len(token_R)
        # A base with learned positions takes no more places than it has positions.
        if self.width >= self.decoder.window > 0:
            self._trim(1)
        for layer in self.cache.layers:
            # Rows behind the last one are free, and those that only fill a bucket have no keys yet.
            layer.keys = _widened(layer.keys[:rows], rows, self.width)
            layer.values = _widened(layer.values[:rows], rows, self.width)
        position_R = self.length_R[:rows].clone()
        self.width += 1
        place_W = torch.arange(self.width, device=token_R.device)
        seen_RW = place_W >= self.width - 1 - position_R[:, None]
        hidden_R1H = self.decoder.run(
            self.bank.decoding(self.products, self.rows),
            input_ids=token_R[:, None],
            attention_mask=seen_RW.long(),
            position_ids=position_R[:, None],
            past_key_values=self.cache,
            use_cache=True,
        )
        # A row that has ended takes part until the host notices. It stays at its limit, and what it samples is dropped.
        self.length_R[:rows] = torch.minimum(position_R + 1, self.limit_R[:rows])
        return hidden_R1H[:, 0]


def _widened(states_RKTD: Tensor, rows: int, width: int) -> Tensor:
    """Returns keys or values with zeros behind the last row and in front of the first token, if some are missing."""
    more_rows = rows - states_RKTD.shape[0]
    more_places = width - states_RKTD.shape[2]
    if not more_rows and not more_places:
        return states_RKTD
    return F.pad(states_RKTD, (0, 0, more_places, 0, 0, 0, 0, more_rows))
