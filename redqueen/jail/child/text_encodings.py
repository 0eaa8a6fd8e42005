"""Makes every text encoding of the standard library usable in a child, which cannot read files.

Loading them all would make the zygote's memory larger and each fork slower. So their code lies in a mapping that a fork
does not copy, and a child that asks for an unusual one runs it from there. Child-side, standard library only.
"""

from __future__ import annotations

import contextlib
import importlib.util
import marshal
import mmap
import os
import sys
from _imp import _fix_co_filename  # type: ignore[attr-defined]
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import IO

_USUAL = "ascii latin_1 utf_8 utf_16 utf_16_le utf_16_be utf_32 cp1252 unicode_escape raw_unicode_escape"
_NATIVE = "_codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr _codecs_tw _multibytecodec binascii unicodedata"
"""What encodings import themselves, as far as this Python has it."""
_PURE = ("base64", "quopri", "stringprep", "uu")
"""What they import too, and can be kept like them."""
_UNUSED = {"bz2": "_bz2", "zlib": "zlib"}
"""What encodings of bytes import, and the native modules behind that: without `codecs` a program cannot use these
encodings, and only learns that they encode no text."""


class TextEncodings:
    """Finds and loads the modules of `encodings`, and those that they need, which are in the mapping."""

    def __init__(self, places: dict[str, tuple[int, int]], code: mmap.mmap) -> None:
        self._places = places
        self._code = code

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in self._places else None  # type: ignore[arg-type]

    def create_module(self, _spec: ModuleSpec) -> None:
        """Leaves it to the import system."""

    def exec_module(self, module: ModuleType) -> None:
        start, end = self._places[module.__name__]
        exec(marshal.loads(self._code[start:end]), vars(module))


def keep() -> None:
    """Loads the usual encodings, and keeps the code of the others at hand."""
    for name in _USUAL.split():
        "".encode(name)
    for name in _NATIVE.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for name, native in _UNUSED.items():
        if importlib.util.find_spec(native):
            sys.modules.setdefault(name, ModuleType(name))
    places: dict[str, tuple[int, int]] = {}
    size = 0
    # Written one by one: what a fork copies should not have held them all.
    with _new_file() as file:
        for name in _names():
            places[name] = (size, size + file.write(_code_of(name)))
            size = places[name][1]
        file.flush()
        code = mmap.mmap(file.fileno(), size, mmap.MAP_PRIVATE, mmap.PROT_READ)
    sys.meta_path.insert(0, TextEncodings(places, code))  # type: ignore[arg-type]


def _new_file() -> IO[bytes]:
    """A file without a name, in memory where the system has such files."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("encodings"), "wb")
    return importlib.import_module("tempfile").TemporaryFile()  # type: ignore[no-any-return]


def _names() -> list[str]:
    package = importlib.import_module("encodings")
    files = {file for folder in package.__path__ for file in os.listdir(folder)}
    names = [f"encodings.{file.removesuffix('.py')}" for file in files if file.endswith(".py")]
    names += [name for name in _PURE if importlib.util.find_spec(name)]
    return sorted(name for name in names if name not in sys.modules and name != "encodings.__init__")


def _code_of(name: str) -> bytes:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    code = spec.loader.get_code(name)  # type: ignore[union-attr]
    _fix_co_filename(code, "")
    return marshal.dumps(code)
