"""Reads and writes the small files of a run, which may be damaged, or made by somebody to make this process fail.

A run holds its own files: nothing in its folder leads a command to files outside of it. A run may come from somebody
else, and archives carry links, second names of files and journals. Followed, they would have a command write, delete or
read what is not the run's. The run's folder itself may be a link: its user made that.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
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


def to_json(data: object, *, indent: int | None = None) -> str:
    """Returns data as JSON. A number that is not finite is null: with it, no other program could read the text."""
    try:
        return json.dumps(data, indent=indent, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(data), indent=indent, allow_nan=False)


def _finite(data: object) -> object:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in cast(Mapping[Any, object], data).items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in cast(list[object], data)]
    return data


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun, "1 row" or "2 rows"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


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


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yields the name to write a file or folder under, which is renamed at the end: what fails leaves no half of it.

    Raises UserError if it cannot be written.
    """
    scratch = path.with_name(f".{path.stem}.tmp{path.suffix}")
    try:
        # One that was killed may have left its files there.
        _remove(scratch)
        yield scratch
        scratch.rename(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        # After the rename there is nothing under this name.
        _remove(scratch)


def _remove(path: Path) -> None:
    if path.is_file():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


_BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside an archive: the log of new rows, its index, and what undoes a change that was cut off."""
_JOURNAL_END = bytes.fromhex("d9d505f920a163d7")
"""The last bytes of a journal that names a file which SQLite removes when it has undone the change."""


def check_entries(folder: Path) -> list[Path]:
    """Returns the folders in a folder of a run. Raises RunError if an entry is a link."""
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise RunError(f"cannot read {folder}: {error.strerror}") from error
    for entry in found:
        if entry.is_symlink():
            raise _link(Path(entry.path))
    return [Path(entry.path) for entry in found if entry.is_dir(follow_symlinks=False)]


def check_tree(folder: Path) -> None:
    """Raises RunError if a folder in a run is a link, or has one in it at any depth."""
    _refuse_link(folder)
    waiting = [folder]
    while waiting:
        waiting += check_entries(waiting.pop())


def check_archive(path: Path, *, writes: bool) -> None:
    """Raises RunError if SQLite, given this archive, would open, change or remove what is not the run's."""
    for file in (path, *(path.with_name(path.name + ending) for ending in _BESIDE)):
        _refuse_link(file)
        try:
            status = file.stat()
        except FileNotFoundError:
            continue
        # SQLite would wait for the other end of a pipe.
        if not stat.S_ISREG(status.st_mode):
            raise RunError(f"{file} is no ordinary file: a run holds its own files")
        # What is written in place changes under all its names. Readers, too, write the index of a log.
        if status.st_nlink > 1 and (writes or file != path):
            raise RunError(f"{file} is a hard link, so it has other names as well: put a copy in its place (cp)")
    journal = path.with_name(f"{path.name}-journal")
    if journal.exists() and _end(journal) == _JOURNAL_END:
        raise RunError(f"{journal} names another file, which would be removed; no run makes such a journal: remove it")


def _end(path: Path) -> bytes:
    """Returns the last bytes of a journal, as many as its mark has."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(_JOURNAL_END)))
        return file.read()


def check_within(name: str) -> None:
    """Raises ValueError if the name of a file, relative to a folder, leads out of that folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"it names {name[:80]!r}, which lies outside of it")


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise _link(path)


def _link(path: Path) -> RunError:
    return RunError(
        f"{path} is a link, and a run holds its own files: put what it leads to in its place, or link the whole run"
    )
