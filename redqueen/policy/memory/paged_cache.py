"""The memory of keys and values, where a GPU keeps them in pages."""

from __future__ import annotations

import torch

from redqueen.policy.memory.machine import Machine
from redqueen.policy.sampling.pages import PAGE, batch_pages
from redqueen.policy.sampling.paging import pages_suit


def token_bytes(machine: Machine) -> int:
    """Returns the bytes of the keys and values of one token of a row."""
    shape = machine.shape
    return 2 * shape.layers * shape.kv_heads * shape.head_size * machine.dtype.itemsize


def kept_in_pages(machine: Machine) -> bool:
    """Returns whether rows take pages of keys and values as they grow, instead of the room that they may need."""
    # transformers' cache has a room for each row.
    if not machine.on_gpu or machine.shape.hosted:
        return False
    return pages_suit(torch.empty(0, machine.shape.head_size, dtype=machine.dtype, device="meta"))


def pages_of_rows(rows: int, room: int, tokens: int) -> tuple[str, int]:
    """Returns a name and the tokens of the pages of rows that reach `room` tokens, and `tokens` together (0: any)."""
    pages = batch_pages(rows, room, tokens)
    return f"sampling: cache of {rows} rows, {pages} pages of {PAGE} tokens", pages * PAGE
