"""Reads pickles that hold plain data only: text, numbers, lists, tuples and dicts.

LiveCodeBench packs its private tests with pickle, and a pickle can name any function to be called. Here nothing can be
named, so nothing can be called.
"""

from __future__ import annotations

import io
import pickle

from redqueen.errors import UserError


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        raise pickle.UnpicklingError(f"it names {module}.{name}: only plain data are read")

    def persistent_load(self, pid: object) -> object:
        raise pickle.UnpicklingError("it refers to something outside: only plain data are read")


def load_plain(data: bytes) -> object:
    """Returns the plain data in a pickle. Raises UserError if it holds anything else, or if it is damaged."""
    try:
        return _Plain(io.BytesIO(data)).load()
    # A damaged pickle raises nearly anything: its opcodes work on a stack that may be empty.
    except Exception as error:
        raise UserError(f"cannot read packed tests: {error}") from error
