"""A real run with all trackers at once, resumed; and one whose library is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from redqueen.base.optional import is_installed
from redqueen.run.recording.recorder import TRACKERS
from redqueen.store.directory import RunDirectory
from tests.cli.conftest import SMALL
from tests.cli.running import redqueen

ALL = ",".join(TRACKERS)


@pytest.mark.skipif(all(map(is_installed, TRACKERS)), reason="all trackers are installed")
def test_a_missing_library_is_one_line_and_nothing_starts(tmp_path: Path) -> None:
    done = redqueen("train", f"run.trackers={ALL}", cwd=tmp_path)
    assert done.returncode == 2
    assert "pip install '.[" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.integration
@pytest.mark.skipif(not all(map(is_installed, TRACKERS)), reason="a tracker is not installed")
def test_a_run_with_all_trackers_is_resumed(tmp_path: Path, tiny_folder: Callable[[str], Path]) -> None:
    environment = {
        **os.environ,
        "WANDB_MODE": "offline",
        "TRACKIO_DIR": str(tmp_path / "trackio"),
        "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db",
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }

    def train(*args: str) -> str:
        command = [sys.executable, "-m", "redqueen", "train", *args]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "is off" not in done.stdout
        return done.stdout

    model = str(tiny_folder("llama"))
    train("--run", "mine", "--steps", "1", "--model", model, *SMALL, f"run.trackers={ALL}")
    directory = RunDirectory(tmp_path / "mine")
    ids = directory.tracker_ids()
    assert sorted(ids) == ["mlflow", "trackio", "wandb"]
    # What does not change results can be changed.
    train("--resume", "mine", "--steps", "2", "run.trackers=tensorboard,wandb")
    assert directory.tracker_ids() == ids
    assert [line["step"] for line in directory.metrics()] == [1, 2]
    assert directory.config().run.trackers == ("tensorboard", "wandb")
    assert len(list((directory.path / "wandb").glob("offline-run-*"))) == 2
    assert len(list((directory.path / "tensorboard").iterdir())) == 2
