"""A run holds its own files: nothing in its folder leads a command to files outside of it.

A run may come from somebody else, and archives carry links, second names of files and journals. Followed, they would
have a command write, delete or read what is not the run's. The run's folder itself may be a link: its user made that.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath

from redqueen.store.files import RunError

_BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside an archive: the log of new rows, its index, and what undoes a change that was cut off."""
_JOURNAL_END = bytes.fromhex("d9d505f920a163d7")
"""The last bytes of a journal that names a file which SQLite removes when it has undone the change."""


def check_entries(folder: Path) -> None:
    """Raises RunError if an entry of a run's folder is a link."""
    _check(folder)


def check_tree(folder: Path) -> None:
    """Raises RunError if a folder in a run is a link, or has one in it at any depth."""
    _refuse_link(folder)
    waiting = [folder]
    while waiting:
        waiting += _check(waiting.pop())


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


def _check(folder: Path) -> list[Path]:
    """Returns the folders in a folder. Raises RunError if an entry is a link."""
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


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise _link(path)


def _link(path: Path) -> RunError:
    return RunError(
        f"{path} is a link, and a run holds its own files: put what it leads to in its place, or link the whole run"
    )
