"""`redqueen train`: what it leaves, what it refuses, and how it stops and resumes."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from redqueen.commands.train import warnings_about
from redqueen.recipes import configure
from tests import tiny
from tests.commands.conftest import SMALL
from tests.commands.running import redqueen, started

pytestmark = pytest.mark.integration


def test_dry_run_prints_the_resolved_config_and_writes_nothing(tmp_path: Path) -> None:
    done = redqueen("train", "paper_7b", "--dry-run", "--steps", "7", cwd=tmp_path)
    config = json.loads(done.stdout)
    assert (config["run"]["steps"], config["model"]["rank"], config["population"]["teachers"]) == (7, 32, 4)
    assert list(tmp_path.iterdir()) == []


def test_dry_run_says_on_standard_error_what_memory_a_run_needs(tmp_path: Path) -> None:
    folder = str(tiny.make(tmp_path / "model"))
    done = redqueen("train", "--dry-run", "--model", folder, "model.workers=2", cwd=tmp_path)
    assert json.loads(done.stdout)["model"]["workers"] == 2
    assert [line.split()[:2] for line in done.stderr.splitlines() if line.startswith(" members")] == [
        ["members:", "weights"],
        ["members:", "AdamW"],
        ["members:", "gradients"],
    ]
    most, least = (line for line in done.stderr.splitlines() if line.startswith(" in all"))
    assert int(most.split()[-1].replace(",", "")) > int(least.split()[-1].replace(",", ""))
    missing = redqueen("train", "--dry-run", "--model", str(tmp_path / "nothing"), cwd=tmp_path)
    assert missing.returncode == 0
    assert missing.stderr.startswith("memory: not estimated, cannot load")


@pytest.mark.parametrize("override", ["sampling.top_p=0.9", "sampling.top_k=40"])
def test_a_run_warns_that_truncated_sampling_is_off_policy(override: str) -> None:
    (line,) = warnings_about(configure([override]))
    assert "off-policy" in line
    assert warnings_about(configure([])) == []


def test_a_run_leaves_its_files(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    assert {"config.json", "environment.json", "metrics.jsonl", "run.sqlite", "checkpoints"} <= names
    lines = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    environment = json.loads((finished / "environment.json").read_text())
    assert environment["isolation"]
    assert len(environment["base_fingerprint"]) == 64


def test_training_into_a_finished_run_says_what_is_there_and_changes_nothing(finished: Path, model: str) -> None:
    before = {p: p.stat().st_mtime_ns for p in finished.rglob("*")}
    done = redqueen("train", "--run", str(finished), "--steps", "2", "--model", model, *SMALL)
    assert done.returncode == 0
    for word in ("2 of 2 steps done", "extend:", "start again:"):
        assert word in done.stdout
    assert {p: p.stat().st_mtime_ns for p in finished.rglob("*")} == before


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    done = redqueen("train", "--run", str(tmp_path))
    assert done.returncode == 2
    assert "choose another --run" in done.stderr
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_a_finished_run_can_be_extended(finished: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    done = redqueen("train", "--resume", str(run), "--steps", "3")
    assert done.returncode == 0, done.stderr
    assert "resuming at step 3 of 3" in done.stdout
    assert json.loads((run / "config.json").read_text())["run"]["steps"] == 3


def test_a_run_that_no_longer_fits_into_memory_is_refused_before_it_is_resumed(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)

    class Little:
        available = 1000

    monkeypatch.setattr("redqueen.policy.memory.estimate.psutil.virtual_memory", lambda: Little)
    before = {p: p.stat().st_mtime_ns for p in run.rglob("*")}
    done = redqueen("train", "--resume", str(run), "--steps", "3")
    assert done.returncode == 2
    assert "GiB free" in done.stderr
    assert {p: p.stat().st_mtime_ns for p in run.rglob("*")} == before


def test_ctrl_c_drops_the_step_and_says_how_to_resume(tmp_path: Path, model: str) -> None:
    run = tmp_path / "run"
    with started("train", "--run", str(run), "--steps", "5000", "--model", model, *SMALL) as process:
        _wait_for_lines(run / "metrics.jsonl", 2, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert f"redqueen train --resume {run}" in out
    assert "Traceback" not in err


def test_a_damaged_checkpoint_is_refused_by_name(finished: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    weights = next((run / "checkpoints" / "step-000002").rglob("adapter_model.safetensors"))
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    done = redqueen("train", "--resume", str(run), "--steps", "3")
    assert done.returncode == 2
    assert "step-000002 is damaged" in done.stderr


def test_two_trainers_cannot_share_a_run(tmp_path: Path, model: str) -> None:
    run = tmp_path / "run"
    with started("train", "--run", str(run), "--steps", "5000", "--model", model, *SMALL) as first:
        _wait_for_lines(run / "metrics.jsonl", 1, first)
        second = redqueen("train", "--resume", str(run))
    assert second.returncode == 2
    assert "another process is training" in second.stderr


def _wait_for_lines(path: Path, count: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not path.exists() or path.read_text().count("\n") < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
