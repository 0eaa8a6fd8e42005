"""Reads pickles that hold plain data only: text, numbers, lists, tuples and dicts.

LiveCodeBench packs its private tests with pickle, and a pickle can name any function to be called. Here nothing can be
named, so nothing can be called.
"""

from __future__ import annotations

import io
import pickle
import pickletools

from redqueen.errors import UserError

_MOST_INSTRUCTIONS = 1_000
"""A text takes six. Each instruction of one byte may make an object, and a gigabyte of them is packed in a megabyte."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        raise pickle.UnpicklingError(f"it names {module}.{name}: only plain data are read")

    def persistent_load(self, pid: object) -> object:
        raise pickle.UnpicklingError("it refers to something outside: only plain data are read")


def load_plain(data: bytes) -> object:
    """Returns the plain data in a pickle. Raises UserError if it holds anything else or much, or if it is damaged."""
    try:
        _check(data)
        return _Plain(io.BytesIO(data)).load()
    # A damaged pickle raises nearly anything: its opcodes work on a stack that may be empty.
    except Exception as error:
        raise UserError(f"cannot read packed tests: {error}") from error


def _check(data: bytes) -> None:
    """Raises UnpicklingError if reading a pickle would take memory that its length does not say."""
    remembered = 0
    for count, (instruction, argument, _) in enumerate(pickletools.genops(data), 1):
        if count > _MOST_INSTRUCTIONS:
            raise pickle.UnpicklingError(f"it has more than {_MOST_INSTRUCTIONS:,} instructions")
        if instruction.name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            # What is remembered is numbered one after the other. The reader makes room for all numbers up to the last.
            if instruction.name != "MEMOIZE" and (argument or 0) > remembered:
                raise pickle.UnpicklingError(f"its first {remembered + 1} numbers are not those up to {argument}")
            remembered += 1
