"""Reads and writes the small files of a run, which may be damaged, or made on purpose to make this process fail."""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from redqueen.base.plain_files import parse_json, read_plain
from redqueen.errors import UserError

LARGE = 1 << 30
"""Bytes that metrics.jsonl has at most: a step has about ten thousand."""
# What code meets that reads data of a form that no run writes.
_ODD = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


class RunError(UserError):
    """A run directory that cannot be used as asked; the message says what to do."""


def read_object(path: Path) -> dict[str, Any]:
    """Returns the object in a small JSON file that a run can do without; {} where there is none that can be read."""
    try:
        data = parse_json(read_plain(path))
    except (OSError, ValueError):
        return {}
    return cast(dict[str, Any], data) if isinstance(data, dict) else {}


def to_json(data: object, *, indent: int | None = None, ascii_only: bool = True) -> str:
    """Returns data as JSON. A number that is not finite is null: with it, no other program could read the text."""
    try:
        return json.dumps(data, indent=indent, ensure_ascii=ascii_only, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(data), indent=indent, ensure_ascii=ascii_only, allow_nan=False)


def _finite(data: object) -> object:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in cast(Mapping[Any, object], data).items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in cast(list[object], data)]
    return data


def quoted(path: Path | str) -> str:
    """Returns a path as a shell takes it: a name with spaces or other signs is quoted."""
    return shlex.quote(str(path))


def printable(text: str) -> str:
    """Returns `text` without signs that could move the cursor or change the terminal: a model wrote it."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


@contextmanager
def damage_of(run: Path | str) -> Iterator[None]:
    """Turns the errors of code that meets what no run writes into a RunError, which names the run and the error."""
    # Files of a run have hundreds of fields, whose types nothing enforces on the disk. To check each of them before it
    # is used would cost more than to use it. The cause is kept, in case that the mistake is ours.
    try:
        yield
    except UserError:
        raise
    except _ODD as error:
        raise RunError(
            f"{run} cannot be read: its files hold something that no run writes ({type(error).__name__}: {error})"
        ) from error


class InPlace:
    """A file that a run writes to from its start to its end, and that must stay where it is.

    What is written to a file whose name is gone is lost without an error.
    """

    def __init__(self, path: Path) -> None:
        """Remembers which file has this name now, if any."""
        self.path = path
        self._file = self._now()

    def check(self) -> None:
        """Raises RunError if another file has the name by now, or none; what had no file may get one."""
        now = self._now()
        if self._file not in (None, now):
            raise RunError(
                f"{self.path} was removed or replaced while the run trained, so what was in it is lost here: put a "
                "copy back and resume the run, or start a new one"
            )
        self._file = now

    def _now(self) -> tuple[int, int] | None:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        return (status.st_dev, status.st_ino)


def sync(path: Path) -> None:
    """Waits until a file's content, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, data: object) -> None:
    """Writes a whole JSON file or nothing."""
    write_text(path, to_json(data, indent=2) + "\n")


def write_text(path: Path, text: str, *, lasting: bool = True) -> None:
    """Writes a whole file or nothing: a reader never sees half of it, nor does one after a power cut if `lasting`."""
    # Renaming within one folder is atomic, writing is not. A link of this name that came with a run would lead the
    # writing elsewhere, so the file is always a new one.
    scratch = path.with_name(f".{path.name}.tmp")
    scratch.unlink(missing_ok=True)
    with scratch.open("x", encoding="utf-8") as file:
        file.write(text)
        # A file system may write a rename first and the content later.
        if lasting:
            file.flush()
            os.fsync(file.fileno())
    scratch.replace(path)
