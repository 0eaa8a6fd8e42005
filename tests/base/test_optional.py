"""Libraries that may not be there."""

from __future__ import annotations

from pathlib import Path

import pytest

from redqueen.base.optional import MissingLibraryError, is_installed, require


def test_a_library_that_is_there_is_found_and_imported() -> None:
    assert is_installed("json")
    assert require("json.decoder", "data", "this").JSONDecoder


def test_a_library_that_is_not_there_is_an_error_that_says_what_to_type() -> None:
    with pytest.raises(MissingLibraryError, match=r"this needs nowhere.module, .*pip install '\.\[data\]'"):
        require("nowhere.module", "data", "this")


def test_a_folder_of_that_name_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "somewandb" / "run").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    assert not is_installed("somewandb")
    with pytest.raises(MissingLibraryError):
        require("somewandb", "wandb", "run.trackers=wandb")
