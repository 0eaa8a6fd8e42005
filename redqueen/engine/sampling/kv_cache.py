"""The KV cache of a continuous batch: memory that is allocated once, whose rows are used again by other sequences.

Shape suffixes: R rows, B blocks, P places of a block, C pages of a row, M tokens of all rows, K kv heads, D head
size.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from redqueen.engine.kernels import dispatch
from redqueen.engine.kernels.flash import flash_takes_pages, takes_heads_of
from redqueen.engine.model.attention import SharedPrefix, SharedPrefixAttention
from redqueen.engine.model.decoder import Decoder
from redqueen.engine.tensor_memory import to_device
from redqueen.errors import ModelError

# Pages of keys and values: where they suit, how many a batch needs, and which row of it has which.
#
# Most texts end long before their limit. A cache that reserves a row's whole room is mostly empty, and a GPU then has
# memory for few rows. So a row takes a page when it reaches one, and gives its pages back when it ends. Rows that
# continue one prompt share the pages that the prompt fills.

VARIABLE = "REDQUEEN_PAGES"
"""The environment variable that chooses: `auto` (the default), `off`, or `on` (on any device, however slow)."""

PAGE = 256
"""The tokens of a page. torch's flash attention takes multiples of 256 only."""

# New rows are taken only while a page stays free for every so many rows that are there: these grow by one every 256
# tokens, and a row that is put back has to be computed again.
_ROWS_A_SPARE_PAGE = 8


def pages_suit(keys: Tensor) -> bool:
    """Returns whether such keys [.., D] are kept in pages: on a GPU whose flash attention reads them.

    A tensor of the meta device stands for one of a GPU that need not be here.
    Raises ModelError if REDQUEEN_PAGES is not `auto`, `on` or `off`.
    """
    choice = os.environ.get(VARIABLE) or "auto"
    if choice not in ("auto", "on", "off"):
        raise ModelError(f"{VARIABLE} is '{choice}': use auto, on or off")
    if choice == "auto":
        return has_flash(keys) and flash_takes_pages()
    return choice == "on"


def has_flash(keys: Tensor) -> bool:
    """Returns whether flash attention takes such keys."""
    return dispatch.on_gpu(keys.device) and dispatch.flash_supports(keys) and takes_heads_of(keys.shape[-1])


def pages_of(tokens: int) -> int:
    """Returns how many pages hold so many tokens."""
    return -(-tokens // PAGE)


def batch_pages(rows: int, room: int, tokens: int = 0) -> int:
    """Returns the pages of a batch of `rows` rows that reach `room` tokens at most.

    `tokens` is how many tokens of all rows are held at once (0: as many as there can be). One row always fits.
    """
    row_pages = pages_of(room)
    most = rows * row_pages
    held = min(most, max(row_pages, tokens // PAGE)) if tokens else most
    # One page more belongs to no row: rows that have ended write there until their places are used again.
    return held + 1


class Pages:
    """Who has which page. Page 0 belongs to no row."""

    def __init__(self, total: int, rows: int) -> None:
        self.total = total
        self.size = PAGE
        self.of_row: list[list[int]] = [[] for _ in range(rows)]
        """The pages of each row, in the order of its tokens."""
        # How many tokens each row has, how many it can have at most, and for how many it has pages.
        self._tokens = np.zeros(rows, np.int64)
        self._most = np.zeros(rows, np.int64)
        self._room = np.zeros(rows, np.int64)
        self._free = list(range(total - 1, 0, -1))
        self._users = [0] * total

    @property
    def free(self) -> int:
        """How many pages are free."""
        return len(self._free)

    def needed(self, prompt: int, rows: int) -> int:
        """Returns how many pages rows take that begin with one prompt of so many tokens."""
        return prompt // self.size + rows

    def spare(self, rows: int) -> int:
        """Returns how many pages new rows shall leave to so many that are there."""
        return rows // _ROWS_A_SPARE_PAGE

    def begin(self, rows: Sequence[int], prompt: int, most: Sequence[int]) -> None:
        """Gives pages to rows that continue one prompt and reach `most` tokens at most.

        They share the pages that the prompt fills; the next one each has to itself.
        """
        shared = [self._free.pop() for _ in range(prompt // self.size)]
        for page in shared:
            self._users[page] = len(rows)
        for row, tokens in zip(rows, most, strict=True):
            self.of_row[row] = [*shared, self._own()]
            self._tokens[row] = prompt
            self._most[row] = tokens
            self._room[row] = len(self.of_row[row]) * self.size

    def reserve(self, rows: int, steps: int) -> list[int] | None:
        """Gives the first rows the pages for so many steps. Returns the rows that had too few.

        Returns None, and gives nothing, if too few pages are free.
        """
        reached = np.minimum(self._tokens[:rows] + steps, self._most[:rows])
        short = np.flatnonzero(reached > self._room[:rows])
        missing = -(-(reached[short] - self._room[short]) // self.size)
        if missing.sum() > self.free:
            return None
        for row, count in zip(short, missing, strict=True):
            self.of_row[row] += [self._own() for _ in range(count)]
        self._room[short] += missing * self.size
        return short.tolist()

    def count(self, rows: int, steps: int = 1) -> None:
        """Counts the token that each step writes to each of the first rows."""
        np.minimum(self._tokens[:rows] + steps, self._most[:rows], out=self._tokens[:rows])

    def end(self, row: int) -> None:
        """Takes a row's pages; those that other rows have as well stay theirs."""
        for page in self.of_row[row]:
            self._users[page] -= 1
            if not self._users[page]:
                self._free.append(page)
        self.of_row[row] = []
        for per_row in (self._tokens, self._most, self._room):
            per_row[row] = 0

    def move(self, source: int, target: int) -> None:
        """Gives a row's pages to a row that has none."""
        self.of_row[target] = self.of_row[source]
        self.of_row[source] = []
        for per_row in (self._tokens, self._most, self._room):
            per_row[target] = per_row[source]
            per_row[source] = 0

    def _own(self) -> int:
        page = self._free.pop()
        self._users[page] = 1
        return page


class KVCache:
    """Keys and values [layers, B, K, P, D] of `rows` sequences of up to `room` tokens, in B blocks of P places each.

    Without pages, block r is row r and has `room` places. With pages, a block is a page, and `table_RC` says which ones
    a row has. Row r holds its first `length_R[r]` tokens, and never more than `limit_R[r]`. What lies behind is never
    read: the memory is not initialised, so a CPU's system provides only those pages that sequences have reached.
    """

    def __init__(self, decoder: Decoder, rows: int, room: int, pages: Pages | None = None) -> None:
        blocks, places = (rows, room) if pages is None else (pages.total, pages.size)
        shape = (len(decoder.layers), blocks, decoder.kv_heads, places, decoder.head_size)
        self.room = room
        self.keys = decoder.embed_VH.new_empty(shape)
        self.values = decoder.embed_VH.new_empty(shape)
        device = self.keys.device
        self.length_R = torch.zeros(rows, dtype=torch.long, device=device)
        # The last place is left for the step of a row that is full: it writes there, and is not counted.
        self.limit_R = torch.full((rows,), room - 1, dtype=torch.long, device=device)

        self.pages = pages
        self.table_RC: Tensor | None = None
        """The pages of each row, where there are pages; 0 where it has none. It stays where it is."""
        if pages is not None:
            self.table_RC = torch.zeros(rows, -(-room // pages.size), dtype=torch.int32, device=device)
        # Rows whose pages the device does not know yet.
        self._changed: set[int] = set()

    def places(self, rows: int) -> tuple[Tensor, Tensor]:
        """Returns the block and the place in it where the next token of each of the first rows goes."""
        at_R = self.length_R[:rows]
        if self.table_RC is None:
            return torch.arange(rows, device=at_R.device), at_R
        places = self.keys.shape[3]
        column_R1 = at_R.div(places, rounding_mode="floor")[:, None]
        return self.table_RC[:rows].gather(1, column_R1)[:, 0].long(), at_R % places

    def advance(self, rows: int) -> None:
        """Counts the token that a step has written to each of the first rows."""
        # A row that has ended takes part in steps until the host notices. It stays at its limit.
        length_R = self.length_R[:rows].add_(1)
        torch.minimum(length_R, self.limit_R[:rows], out=length_R)

    def begin(self, rows: Sequence[int], prompt: int, most: Sequence[int]) -> None:
        """Makes room for a prompt of so many tokens in rows that continue it and reach `most` tokens at most."""
        if self.pages is not None:
            self.pages.begin(rows, prompt, most)
            self._changed.update(rows)

    def reserve(self, rows: int, steps: int) -> bool:
        """Makes room for so many steps of the first rows. Returns false, and does nothing, if there is too little."""
        if self.pages is None:
            return True
        grown = self.pages.reserve(rows, steps)
        if grown is None:
            return False
        self._changed.update(grown)
        self.tell()
        return True

    def count(self, rows: int) -> None:
        """Counts on the host the token that a step writes to each of the first rows, before the device has done it."""
        if self.pages is not None:
            self.pages.count(rows)

    def end(self, rows: Sequence[int]) -> None:
        """Empties these rows, whose places will be used again."""
        # They still take part in each step, because leaving them out would mean moving the rows behind them. At
        # length 0 a row overwrites its first place, and attends to one token only. Pages are somebody else's by then:
        # what is queued on the device now still writes to them, and what is queued later does not.
        row_R = to_device(torch.tensor(rows), self.length_R.device)
        self.length_R[row_R] = 0
        self.limit_R[row_R] = 0
        if self.pages is not None:
            for row in rows:
                self.pages.end(row)
            self._changed.update(rows)
            self.tell()

    def move(self, sources: Sequence[int], targets: Sequence[int], tokens: int) -> None:
        """Puts rows of at most `tokens` tokens to other places, each row of `sources` to the one of `targets`."""
        source_M, target_M = to_device(torch.tensor([sources, targets]), self.length_R.device)
        for per_row in (self.length_R, self.limit_R):
            per_row[target_M] = per_row[source_M]
        if self.pages is None:
            # Layer by layer, because the rows are copied twice: all layers at once would take gigabytes on a GPU.
            for tensor in (self.keys, self.values):
                for layer in tensor[..., :tokens, :]:
                    layer[target_M] = layer[source_M]
            return
        for source, target in zip(sources, targets, strict=True):
            self.pages.move(source, target)
        self._changed.update(targets)
        # The left row has no pages any more, but is still computed if it fills a bucket.
        self.end(sources)

    def tell(self) -> None:
        """Tells the device which pages the rows have."""
        if self.table_RC is None or self.pages is None or not self._changed:
            return
        rows = sorted(self._changed)
        self._changed.clear()
        table = torch.zeros(len(rows), self.table_RC.shape[1], dtype=torch.int32)
        for line, row in zip(table, rows, strict=True):
            pages = self.pages.of_row[row]
            line[: len(pages)] = torch.tensor(pages, dtype=torch.int32)
        device = self.table_RC.device
        self.table_RC[to_device(torch.tensor(rows), device)] = to_device(table, device)

    def parts(self, row: int, start: int, tokens: int, *, first: bool) -> list[tuple[int, int, int]]:
        """Returns where a prompt goes that row continues: blocks, their first token's row in a batch, their tokens.

        The prompt's tokens begin at `start` of the batch. Of rows that share pages only the first one writes them.
        """
        if self.pages is None:
            return [(row, start, tokens)]
        size = self.pages.size
        filled = tokens // size
        written = range(0 if first else filled, filled + 1)
        return [
            (self.pages.of_row[row][page], start + page * size, min(size, tokens - page * size)) for page in written
        ]


@dataclass(frozen=True, slots=True)
class PrefillEntry:
    """One prompt of a flat batch."""

    prefix: SharedPrefix
    rows: list[int]
    """The rows of the cache that continue the prompt."""


class Prefill:
    """Attention over whole prompts. It copies a prompt's keys and values to each row of the cache that continues it."""

    def __init__(self, cache: KVCache, entries: Sequence[PrefillEntry]) -> None:
        self.cache = cache
        device = cache.keys.device
        self.attention = SharedPrefixAttention([entry.prefix for entry in entries], device)

        # A list of copies, the same for all layers: block of the cache, place in it, row of the flat batch. A prompt
        # that n rows continue is computed once, and written n times but for the pages that they share.
        lengths: list[tuple[int, int]] = []
        parts: list[tuple[int, int, int]] = []
        for entry in entries:
            start, tokens = entry.prefix.start, entry.prefix.prompt
            for number, row in enumerate(entry.rows):
                lengths.append((row, tokens))
                parts += cache.parts(row, start, tokens, first=number == 0)
        block_B, start_B, tokens_B = torch.tensor(parts).T
        block_M, start_M = torch.stack([block_B, start_B]).repeat_interleave(tokens_B, 1)
        before_M = (tokens_B.cumsum(0) - tokens_B).repeat_interleave(tokens_B)
        at_M = torch.arange(len(block_M)) - before_M
        self.block_M, self.at_M, self.source_M = to_device(torch.stack([block_M, at_M, start_M + at_M]), device)

        row_R, length_R = to_device(torch.tensor(lengths).T.contiguous(), device)
        cache.length_R[row_R] = length_R
        cache.tell()

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.cache.keys[layer][self.block_M, :, self.at_M] = k[self.source_M]
        self.cache.values[layer][self.block_M, :, self.at_M] = v[self.source_M]
        return self.attention(layer, q, k, v)
