"""Reads files that a user names or that came from elsewhere: none may make this process wait, or fill its memory."""

from __future__ import annotations

import io
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

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


def parse_json(text: str | bytes) -> Any:
    """Returns the data of a JSON text; NaN and infinities, which JSON does not have, are None.

    Raises ValueError if it is none, or nested too deeply.
    """
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
