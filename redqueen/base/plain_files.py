"""Reads files that a user names or that came from elsewhere: none may make this process wait, or fill its memory."""

from __future__ import annotations

import io
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from io import BufferedReader
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

SMALL = 64 << 20
"""Bytes that a configuration, a record or the table of an evaluation has at most."""


@contextmanager
def open_plain(path: Path) -> Iterator[BufferedReader]:
    """Opens a file to read its bytes. Raises OSError if it cannot be read or is no ordinary file."""
    # Opening a pipe waits for its writer, and a device may have no end.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path} is no ordinary file")
        yield file


def read_plain(path: Path, most: int = SMALL) -> bytes:
    """Returns the content of an ordinary file of at most `most` bytes. Raises OSError for anything else."""
    with open_plain(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(f"{path} has more than {most >> 20} MiB")
    return content


def read_plain_text(path: Path, most: int = SMALL) -> str:
    """Returns the text of an ordinary file, with plain ends of lines and without the mark that some editors put first.

    Raises OSError for anything else, UnicodeDecodeError if it is no UTF-8.
    """
    return io.TextIOWrapper(io.BytesIO(read_plain(path, most)), encoding="utf-8-sig").read()


_TICK_NS = 20_000_000
"""Two changes of a file within so many nanoseconds may have one time."""


def read_once(read: Callable[Concatenate[Path, P], T]) -> Callable[Concatenate[Path, P], T]:
    """Returns a function of a file whose newest value is kept: a file that has not changed is not read again.

    All callers get the same value, so it must be immutable.
    """
    kept: dict[object, T] = {}

    @wraps(read)
    def again(file: Path, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (_state(file), args, tuple(kwargs.items()))
        if key in kept:
            return kept[key]
        value = read(file, *args, **kwargs)
        kept.clear()
        if key[0] is not None:
            kept[key] = value
        return value

    return again


def _state(file: Path) -> tuple[object, ...] | None:
    """Returns what differs once a file has changed; None where that cannot be told."""
    try:
        found = file.stat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode) or time.time_ns() - found.st_mtime_ns < _TICK_NS:
        return None
    return file.absolute(), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def parse_json(text: str | bytes) -> Any:
    """Returns the data of a JSON text; NaN and infinities, which JSON does not have, are None.

    Raises ValueError if it is none, or nested too deeply.
    """
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
