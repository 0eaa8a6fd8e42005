"""The main job on the bundled model, through the command line: warm start, real tasks, kill -9, resume, export."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from redqueen.assets import WARM, WARM_WORK
from redqueen.config import ModelConfig
from redqueen.engine.adapters import load_adapter
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.base import load, location
from redqueen.tasks.kinds import languages, names
from tests import toy
from tests.reference import member_logits, merged

pytestmark = pytest.mark.integration

# Births come after every step, so that resuming has children to restore.
SMALL = (
    "game.proposals=2",
    "game.attempts=3",
    "evolution.every=1",
    "evolution.burn_in=1",
    "evolution.gamma=0.5",
    "evals.every=0",
    "learning.lr=1e-3",
    "model.threads=1",
    "model.workers=2",
    "sampling.proposal_tokens=80",
    "sampling.attempt_tokens=48",
)


def train(*args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "redqueen", "train", *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    return out


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("main") / "whole"
    finish(train("--run", str(run), "--steps", "2", *SMALL))
    return run


def lines(run: Path) -> list[dict]:
    parsed = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [toy.without(line, "seconds", "throughput", "time") for line in parsed]


def test_teachers_write_valid_tasks_and_students_solve_some(whole: Path) -> None:
    steps = lines(whole)
    assert sum(line["valid_rate"] for line in steps) / 2 > 0.3
    assert 0 < sum(line["solve_rate"] or 0 for line in steps) / 2 < 1
    assert all(line["grad_norm"] and line["tokens_trained"] > 0 for line in steps)
    assert any(line["replacements"] for line in steps)


@pytest.mark.slow
def test_kill_9_in_the_middle_of_a_step_then_resume_equals_the_uninterrupted_run(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "broken"
    process = train("--run", str(run), "--steps", "2", *SMALL)
    deadline = time.monotonic() + 300
    while not (run / "checkpoints" / "step-000001").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(1.0)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert len(lines(run)) == 1, "the second step must not have ended"

    assert "resuming at step 2 of 2" in finish(train("--resume", str(run)))
    assert lines(run) == lines(whole)
    # The manifests hold the checksum of every adapter, every optimizer state, the ratings and the bank.
    one, two = (json.loads((r / "checkpoints" / "step-000002" / "manifest.json").read_text()) for r in (run, whole))
    assert one == two


@pytest.mark.slow
def test_an_exported_member_has_our_logits_in_peft(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "student"
    subprocess.run([sys.executable, "-m", "redqueen", "export", str(whole), "best-student", str(out)], check=True)
    ours = load(ModelConfig(dtype="float32", threads=1, workers=1))
    adapter, alpha = load_adapter(out)
    bank = AdapterBank(ours.decoder.sites, 1, 8, alpha, ModelConfig().targets)
    bank.add("student", adapter)
    ids = torch.tensor([ours.tokenizer("def f(x):\n    return x + 3\nassert f(5) ==").input_ids])
    theirs = AutoModelForCausalLM.from_pretrained(location("smollm2-135m-instruct"), dtype=torch.float32)
    mine = member_logits(ours, bank, ["student"], ids.tolist())[0]
    with torch.no_grad():
        oracle = merged(ours, bank, "student", torch.float32)(ids).logits
        plain = theirs(ids).logits
        wrapped = PeftModel.from_pretrained(theirs, str(out))(ids).logits
    assert (mine - wrapped).abs().max() < 1e-3
    assert (oracle - wrapped).abs().max() < 1e-3
    assert (plain - wrapped).abs().max() > 0.1, "the adapter does something"


SHIPPED = [WARM, WARM_WORK, *(folder for language in languages(names()) for folder in language.warm_starts.values())]


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_a_shipped_warm_start_has_its_checksum(folder: Path) -> None:
    import hashlib

    note = json.loads((folder / "warm_start.json").read_text())
    weights = folder / "adapter_model.safetensors"
    assert hashlib.sha256(weights.read_bytes()).hexdigest() == note["sha256"][weights.name]
    assert weights.stat().st_size < 6e6
    assert note["command"].startswith("redqueen warm-start")
