"""Pages of keys and values: where they suit, how many a batch needs, and which row of it has which.

Most texts end long before their limit. A cache that reserves a row's whole room is mostly empty, and a GPU then has
memory for few rows. So a row takes a page when it reaches one, and gives its pages back when it ends. Rows that
continue one prompt share the pages that the prompt fills.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from redqueen.engine.kernels import dispatch
from redqueen.engine.kernels.flash import flash_takes_pages, takes_heads_of
from redqueen.errors import ModelError

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
    Raises ModelError if REDQUEEN_PAGES is none of `auto`, `on` and `off`.
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
    """Who has which page. Page 0 is nobody's."""

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
