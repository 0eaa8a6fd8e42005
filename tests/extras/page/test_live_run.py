"""The page reads a run's small files again when they have changed, and only then."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from redqueen.extras.page.live_run import LiveRun
from redqueen.store.directory import RunError


def test_the_newest_line_is_the_last_of_all_lines_also_after_a_step_and_a_rewind(watched: Path, tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    shutil.copy(watched / "first" / "metrics.jsonl", file)
    every = file.read_text().splitlines(keepends=True)
    run = LiveRun(tmp_path)
    for lines in (every, every[:1], every[:2], []):
        file.write_text("".join(lines))
        newest = run.newest()
        assert newest == (LiveRun(tmp_path).lines() or [None])[-1]
        run.lines()
        assert run.newest() == newest
    file.write_text("no line\n")
    with pytest.raises(RunError, match="line 1, is damaged"):
        run.newest()
