"""A tiny model, the options that make a run on it quick, and one finished run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import redqueen

SMALL = (
    "population.init=fresh",
    "model.dtype=float32",
    "model.threads=1",
    "model.workers=1",
    "game.proposals=2",
    "game.attempts=2",
    "sampling.proposal_tokens=6",
    "sampling.attempt_tokens=4",
    "sandbox.workers=1",
)


@pytest.fixture(scope="session")
def model(tiny_folder: Callable[[str], Path]) -> str:
    return str(tiny_folder("llama"))


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, model: str) -> Path:
    """A run of two steps. No test may change it."""
    run = tmp_path_factory.mktemp("commands") / "run"
    done = redqueen("train", "--run", str(run), "--steps", "2", "--model", model, *SMALL)
    assert done.returncode == 0, done.stderr
    assert "done: 2 steps" in done.stdout
    assert done.stdout.count(f"redqueen watch {run}") == 2
    return run
