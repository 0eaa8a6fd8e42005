"""The command line as a person uses it: in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from redqueen import __version__
from tests import tiny

pytestmark = pytest.mark.integration

SMALL = (
    "population.init=fresh",
    "model.dtype=float32",
    "model.threads=1",
    "model.workers=1",
    "game.proposals=1",
    "game.attempts=2",
    "sampling.proposal_tokens=6",
    "sampling.attempt_tokens=4",
    "sandbox.workers=1",
)


def redqueen(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "redqueen", *args]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300, check=False)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.make(tmp_path_factory.mktemp("cli") / "model"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, model: str) -> Path:
    run = tmp_path_factory.mktemp("cli") / "run"
    done = redqueen("train", "--run", str(run), "--steps", "2", "--model", model, *SMALL)
    assert done.returncode == 0, done.stderr
    assert "done: 2 steps" in done.stdout
    return run


def test_version() -> None:
    assert redqueen("--version").stdout == f"redqueen {__version__}\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("population.students=0",), "population.students"),
        (("model.rank=0",), "model.rank"),
        (("evolution.every=0",), "evolution.every"),
        (("populaton.teachers=3",), "did you mean 'population.teachers'?"),
        (("quikstart",), "did you mean 'quickstart'?"),
        (("--model", "/no/such/model"), "/no/such/model"),
        (("--resume", "/no/such/run"), "/no/such/run holds no readable run"),
        (("--resume", "/no/such/run", "learning.lr=1"), "only --steps and --workers may be given"),
    ],
)
def test_bad_input_is_one_clear_line(tmp_path: Path, args: tuple[str, ...], message: str) -> None:
    done = redqueen("train", *args, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


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
    assert done.stderr.strip().splitlines()[-1].split()[:2] == ["in", "all"]
    missing = redqueen("train", "--dry-run", "--model", str(tmp_path / "nothing"), cwd=tmp_path)
    assert missing.returncode == 0
    assert missing.stderr.startswith("memory: not estimated, cannot load")


def test_a_run_leaves_its_files(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    assert {"config.json", "environment.json", "metrics.jsonl", "run.sqlite", "checkpoints"} <= names
    lines = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 1]
    environment = json.loads((finished / "environment.json").read_text())
    assert environment["isolation"]
    assert len(environment["base_fingerprint"]) == 64


def test_training_into_a_finished_run_says_what_is_there_and_changes_nothing(finished: Path, model: str) -> None:
    before = {p: p.stat().st_mtime_ns for p in finished.rglob("*")}
    done = redqueen("train", "--run", str(finished), "--steps", "2", "--model", model, *SMALL)
    assert done.returncode == 0
    for word in ("2 of 2 steps done", "extend:", "start afresh:"):
        assert word in done.stdout
    assert {p: p.stat().st_mtime_ns for p in finished.rglob("*")} == before


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    done = redqueen("train", "--run", str(tmp_path))
    assert done.returncode == 2
    assert "choose another --run" in done.stderr
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_export_writes_a_peft_folder_with_a_card(finished: Path, tmp_path: Path) -> None:
    done = redqueen("export", str(finished), "best-student", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert {p.name for p in (tmp_path / "out").iterdir()} >= {
        "adapter_config.json",
        "adapter_model.safetensors",
        "README.md",
    }
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| S" in card
    assert "base fingerprint" in card


def test_exporting_nobody_names_those_who_are_there(finished: Path, tmp_path: Path) -> None:
    done = redqueen("export", str(finished), "S99", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "choose one of T0, T1, S0, S1" in done.stderr


def test_a_finished_run_can_be_extended(tmp_path: Path, model: str) -> None:
    run = str(tmp_path / "run")
    assert redqueen("train", "--run", run, "--steps", "1", "--model", model, *SMALL).returncode == 0
    done = redqueen("train", "--resume", run, "--steps", "2")
    assert done.returncode == 0, done.stderr
    assert "resuming at step 2 of 2" in done.stdout
    assert json.loads((tmp_path / "run" / "config.json").read_text())["run"]["steps"] == 2


def test_ctrl_c_drops_the_step_and_says_how_to_resume(tmp_path: Path, model: str) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "redqueen", "train", "--run", str(run), "--steps", "5000", "--model", model]
    process = subprocess.Popen([*command, *SMALL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _wait_for_lines(run / "metrics.jsonl", 2, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert f"redqueen train --resume {run}" in out
    assert "Traceback" not in err


def test_a_damaged_checkpoint_is_refused_by_name(finished: Path, tmp_path: Path) -> None:
    import shutil

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
    command = [sys.executable, "-m", "redqueen", "train", "--run", str(run), "--steps", "5000", "--model", model]
    first = subprocess.Popen([*command, *SMALL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        _wait_for_lines(run / "metrics.jsonl", 1, first)
        second = redqueen("train", "--resume", str(run))
        assert second.returncode == 2
        assert "another process is training" in second.stderr
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.communicate()


def _wait_for_lines(path: Path, count: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not path.exists() or path.read_text().count("\n") < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
