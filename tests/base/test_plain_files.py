"""Files that are read once: what is kept of one is dropped when it changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from redqueen.base.plain_files import read_once


def test_a_file_is_read_again_if_it_changes_or_something_else_is_asked(tmp_path: Path) -> None:
    asked: list[tuple[str, int]] = []

    @read_once
    def lines(file: Path, most: int) -> tuple[str, ...]:
        asked.append((file.name, most))
        return tuple(file.read_text().splitlines()[:most])

    file = tmp_path / "a"
    file.write_text("1\n2\n")
    os.utime(file, (1e9, 1e9))
    assert lines(file, 1) == lines(file, 1) == ("1",)
    assert lines(file, 2) == ("1", "2")
    assert asked == [("a", 1), ("a", 2)]
    file.write_text("3\n4\n")
    os.utime(file, (1e9, 1.1e9))
    assert lines(file, 2) == ("3", "4")
    # A change at the same moment could not be told, so what has just been written is not kept.
    file.write_text("5\n6\n")
    os.utime(file)
    assert lines(file, 2) == ("5", "6")
    file.write_text("7\n8\n")
    assert lines(file, 2) == ("7", "8")
    file.unlink()
    with pytest.raises(FileNotFoundError):
        lines(file, 2)
