"""The store of samples: what is there stays, and what the machine lost is asked for again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from redqueen.errors import UserError
from redqueen.evals.samples import FILE, SampleRow, SampleStore

ROW = SampleRow(
    setting="s",
    adapter="a",
    benchmark="gsm8k",
    problem="1",
    number=0,
    label="base",
    text="x",
    answer=None,
    status="malformed",
    detail="",
    tokens=3,
    cut_off=0,
)


def test_samples_outlive_the_store_and_lost_ones_do_not_count(tmp_path: Path) -> None:
    with SampleStore(tmp_path / "new") as store:
        store.add([ROW, replace(ROW, problem="2", status="infra_error"), replace(ROW, setting="other")])
    with SampleStore(tmp_path / "new") as store:
        settings = {"1": "s", "2": "s"}
        assert store.finished(settings, "gsm8k") == {("a", "1", 0): ROW}
        store.add([replace(ROW, problem="2", status="correct")])
        assert len(store.finished(settings, "gsm8k")) == 2
        # Another problem of that name has another setting.
        assert list(store.finished({**settings, "1": "t"}, "gsm8k")) == [("a", "2", 0)]


def test_a_file_that_holds_something_else_is_one_line(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("no database, but long enough to look at" * 50)
    with pytest.raises(UserError, match=r"holds no samples .*: choose another --out"):
        SampleStore(tmp_path)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match=r"cannot write .*samples.* choose another --out"):
            SampleStore(folder)
