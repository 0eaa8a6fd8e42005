"""The reserved programs: held-out evaluation poses them, and nothing else ever shows them to a model.

They are seeds that were taken out, with all seeds of the same shape, and programs written for this purpose. No seed has
the shape of one of them. The warm start and the task bank also refuse what a model writes in one of these shapes.
"""

from __future__ import annotations

from functools import cache

from redqueen.records import Draft
from redqueen.tasks.kinds.language import Half, halved
from redqueen.tasks.python.seeds import read_blocks

FILES = ("reserved/taken_out.txt", "reserved/written.txt")


@cache
def reserved(half: Half | None = None) -> tuple[Draft, ...]:
    """Returns one half of the reserved drafts, or all of them, in file order.

    The halves take turns in the files, which go from simple to less simple programs, so both are equally hard.
    """
    return halved(read_blocks(FILES), half)
