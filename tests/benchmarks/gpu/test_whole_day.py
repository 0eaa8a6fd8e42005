"""A whole GPU day: every part in a process of its own, within its time, with its lines in a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import whole_day
from benchmarks.gpu.day import PARTS
from benchmarks.gpu.output import END, FOLDER, say, seconds_left
from benchmarks.gpu.whole_day import LIMITS, WITHIN, run_day
from benchmarks.timing import BenchmarkError
from tools.gpu_pack import divide, write

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the results, which is not there yet."""
    monkeypatch.setenv(FOLDER, str(tmp_path / "out"))
    return tmp_path / "out"


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "day.jsonl").read_text().splitlines()]


def test_the_parts_take_ten_minutes_and_are_those_that_can_be_named() -> None:
    assert sum(LIMITS.values()) == WITHIN == 600
    assert list(LIMITS) == list(PARTS)


def test_a_number_is_in_the_file_as_soon_as_it_is_printed(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    say("   tokens a second", (1, 2.5), "3")
    assert capsys.readouterr().out == "   tokens a second: (1, 2.5)   [3]\n"
    assert lines(out) == [{"part": "", "name": "tokens a second", "value": [1, 2.5], "wanted": "3"}]


def stand_in(out: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Puts a shell script in the place of Python; `$4` is the part."""
    fake = out.parent / "python"
    fake.write_text(f"#!/bin/sh\n{script}\nexit 0\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))


def test_a_part_that_does_not_end_is_ended_and_the_next_one_runs(
    out: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # The part "run" never ends, and so does a process that it has started.
    stand_in(out, monkeypatch, 'echo "$4 begins"; [ "$4" = run ] && { sleep 60 & sleep 60; }')
    monkeypatch.setattr(whole_day, "LIMITS", {**LIMITS, "run": 0.3})
    with pytest.raises(BenchmarkError, match=r"these are not ok: run$"):
        run_day(["run", "7b"], tiny=False, within=60)
    assert [(line["of"], line["value"]) for line in lines(out)] == [("run", "not done in 0 s"), ("7b", "ok")]
    assert (out / "day.log").read_text() == "run begins\n7b begins\n"
    assert "== 7b: ok" in capfd.readouterr().out


def test_no_fault_of_a_part_stops_the_next(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # One raises, one is killed as by a lack of memory, one ends itself, one leaves a process that holds its output.
    faults = "smoke) exit 1;; correct) kill -9 $$;; run) kill -ABRT $$;; 7b) setsid sleep 60 & ;;"
    stand_in(out, monkeypatch, f'case "$4" in {faults} esac')
    with pytest.raises(BenchmarkError, match=r"these are not ok: smoke, correct, run$"):
        run_day([], tiny=True, within=60)
    outcomes = {line["of"]: line["value"] for line in lines(out)}
    assert list(outcomes) == list(LIMITS)
    assert outcomes["smoke"] == "exit status 1"
    assert outcomes["correct"] == "exit status -9"
    assert {outcomes[part] for part in ("7b", "sampler", "tests", "cpu")} == {"ok"}


def test_a_part_knows_how_many_seconds_it_has(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(out, monkeypatch, f"echo ${END}")
    before = time.monotonic()
    run_day(["smoke", "tests"], tiny=False, within=300)
    smoke, tests = map(float, (out / "day.log").read_text().split())
    assert smoke >= before + LIMITS["smoke"]
    # What the others have left is the tests'.
    assert before + LIMITS["smoke"] < tests <= time.monotonic() + 300
    monkeypatch.setenv(END, str(before + 1000))
    assert 0 < seconds_left() <= 1000


def test_what_there_is_no_time_for_is_left_out(out: Path) -> None:
    with pytest.raises(BenchmarkError, match="not ok: smoke, correct, run"):
        run_day([], tiny=True, within=0)
    assert {line["value"] for line in lines(out)} == {"left out"}


@pytest.mark.slow
def test_the_script_unpacks_a_parcel_and_runs_parts(tmp_path: Path) -> None:
    # Without the weights: what is left of them comes with the next parcel.
    weights = tmp_path / "model.gguf"
    weights.write_bytes(b"weights")
    parcel = write(divide([], weights, 5), weights, tmp_path)[0]
    done = subprocess.run(
        [ROOT / "tools" / "gpu_day.sh", parcel, "correct", "--tiny"],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "STORE": str(tmp_path / "store"),
            "OUT": str(tmp_path / "out"),
            "PYTHON": sys.executable,
            "WITHIN": "500",
        },
    )
    assert done.returncode == 0, done.stderr
    assert "parcel 1 of 2: weights.2 not here yet" in done.stdout
    assert "== correct: ok" in done.stdout
    found = lines(tmp_path / "out")
    assert {line["part"] for line in found} == {"", "correct"}
    assert not [line for line in found if line["name"].startswith("FAILED")]
