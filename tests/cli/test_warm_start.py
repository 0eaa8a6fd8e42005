"""`redqueen warm-start`: the adapter that members start from, and the record of how it was made."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from redqueen.cli.warm_start import RECORD
from redqueen.engine.adapters import WEIGHTS
from tests.cli.conftest import SMALL
from tests.cli.running import redqueen

QUICK = ("--steps", "2,1", "--proposals", "2", "--lessons", "2", "--lr", "0.01", "--answers-alone")

pytestmark = pytest.mark.integration


@pytest.mark.slow
def test_it_writes_an_adapter_with_its_record_from_which_a_run_can_start(tmp_path: Path, model: str) -> None:
    out = tmp_path / "warm"
    done = redqueen("warm-start", str(out), *SMALL, "--model", model, *QUICK)
    assert done.returncode == 0, done.stderr
    assert f"population.init={out}" in done.stdout.replace("\n", "")
    record = json.loads((out / RECORD).read_text())
    assert record["command"].startswith(f"redqueen warm-start OUT {' '.join(QUICK)}")
    assert record["command"].endswith(f"model.name={model}")
    assert record["sha256"] == {WEIGHTS: hashlib.sha256((out / WEIGHTS).read_bytes()).hexdigest()}
    (between,) = record["proposals"]
    assert sum(between.values()) == 6, "two proposals of each kind, counted by what became of them"
    options = [option for option in SMALL if not option.startswith("population.init")]
    run = tmp_path / "run"
    args = ("--run", str(run), "--steps", "1", "--model", model, *options, f"population.init={out}")
    started = redqueen("train", *args)
    assert started.returncode == 0, started.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--steps", "2,many"), "--steps takes positive whole numbers with commas, not '2,many'"),
        (("--proposals", "0"), "--proposals takes positive whole numbers with commas, not '0'"),
        (("--steps", "1,1,1", "--proposals", "2"), "--proposals needs a number between each two rounds"),
        (("--lessons", "0"), "--lessons and --lr must be positive"),
        (("--lr", "0"), "--lessons and --lr must be positive"),
        (("--lr", "nan"), "--lessons and --lr must be positive"),
    ],
)
def test_impossible_numbers_are_refused_before_anything_is_loaded(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = redqueen("warm-start", str(tmp_path / "warm"), "--model", "/no/such/model", *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "warm").exists()


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    done = redqueen("warm-start", str(tmp_path))
    assert done.returncode == 2
    assert "is not empty: choose another folder" in done.stderr
