"""A whole GPU day: every part in a process of its own, within its time, with its lines in a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import whole_day
from benchmarks.gpu.output import FOLDER, say
from benchmarks.gpu.whole_day import LIMITS, run_day
from benchmarks.timing import BenchmarkError

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the results, which is not there yet."""
    monkeypatch.setenv(FOLDER, str(tmp_path / "out"))
    return tmp_path / "out"


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "day.jsonl").read_text().splitlines()]


def test_the_parts_take_half_an_hour_at_most() -> None:
    assert sum(LIMITS.values()) == 1800
    assert list(LIMITS)[:3] == ["env", "smoke", "correct"]


def test_a_number_is_in_the_file_as_soon_as_it_is_printed(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    say("   tokens a second", (1, 2.5), "3")
    assert capsys.readouterr().out == "   tokens a second: (1, 2.5)   [predicted 3]\n"
    assert lines(out) == [{"part": "", "name": "tokens a second", "value": [1, 2.5], "predicted": "3"}]


def test_a_part_that_does_not_end_is_ended_and_the_next_one_runs(
    out: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # Stands for Python: the part "train" never ends, and so does a process that it has started.
    fake = out.parent / "python"
    fake.write_text('#!/bin/sh\necho "$4 begins"\n[ "$4" = train ] && { sleep 60 & sleep 60; }\nexit 0\n')
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    monkeypatch.setattr(whole_day, "LIMITS", {**LIMITS, "train": 0.3})
    with pytest.raises(BenchmarkError, match=r"these are not ok: train$"):
        run_day(["train", "step"], tiny=True, within=60)
    assert [(line["of"], line["value"]) for line in lines(out)] == [("train", "not done in 0 s"), ("step", "ok")]
    assert (out / "train.log").read_text() == "train begins\n"
    assert "== step: ok" in capfd.readouterr().out


def test_what_there_is_no_time_for_is_left_out(out: Path) -> None:
    with pytest.raises(BenchmarkError, match="env, smoke"):
        run_day([], tiny=True, within=0)
    assert {line["value"] for line in lines(out)} == {"left out"}


@pytest.mark.slow
def test_a_whole_day_at_toy_sizes(out: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "gpu", "day", "--tiny"], capture_output=True, text=True, cwd=ROOT
    )
    found = lines(out)
    outcomes = {line["of"]: line["value"] for line in found if line["name"] == "outcome"}
    assert outcomes == dict.fromkeys(LIMITS, "ok"), done.stdout
    assert done.returncode == 0
    assert {line["part"] for line in found} == {"", *LIMITS}
    assert {path.name for path in out.iterdir()} == {"day.jsonl", "profile.txt", *(f"{part}.log" for part in LIMITS)}
    # No check of a kernel failed.
    assert not [line for line in found if line["name"].startswith("FAILED")]


@pytest.mark.slow
def test_the_script_brings_what_the_machine_lacks(out: Path) -> None:
    wheels = out.parent / "wheels"
    wheels.mkdir()
    for name in ("brought-1.0-py3-none-any.whl", "pytest-0.1-py3-none-any.whl"):
        with zipfile.ZipFile(wheels / name, "w") as wheel:
            wheel.writestr("brought/__init__.py", "")
    done = subprocess.run(
        [ROOT / "tools" / "gpu_day.sh", "env", "--tiny"],
        capture_output=True,
        text=True,
        env={**os.environ, "WHEELS": str(wheels), "PYTHON": sys.executable, "WITHIN": "300"},
    )
    assert done.returncode == 0, done.stderr
    assert "brought: unpacked from brought-1.0-py3-none-any.whl" in done.stdout
    assert "pytest: 0.1" not in done.stdout
    assert "is here" in done.stdout
    assert "== env: ok" in done.stdout
