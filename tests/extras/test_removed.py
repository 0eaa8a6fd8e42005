"""The core without its extras: a run is played as before, and what needs a deleted one says so in a line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from redqueen import extras
from tests.test_layers import EXTRAS

ROOT = Path(extras.__file__).parents[2]
# Imports of the extras in the first argument fail, as if their folders were deleted.
HOOK = """
import sys
del sys.argv[0]
removed = tuple(f"redqueen.extras.{extra}." for extra in sys.argv[0].split(","))
class Removed:
    def find_spec(self, name, path=None, target=None):
        if f"{name}.".startswith(removed):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
sys.meta_path.insert(0, Removed())
from redqueen.cli.app import main
main()
"""
SMALL = (
    "run.steps=1 game.kinds=code_o game.seed_tasks=6 game.references=1 game.proposals=2 game.attempts=2 evals.every=0 "
    "sampling.proposal_tokens=8 sampling.attempt_tokens=8 model.workers=1 model.threads=1 evolution.enabled=false"
)
NEEDED = {
    "benchmarks": "eval base --benchmarks humaneval+",
    "expr": "train expr",
    "page": "watch runs",
    "ray": "train --ray",
    "reasoning_gym": "train rlvr game.source=reasoning_gym:chain_sum",
    "rewards": "tasks export RUN --format verifiers --out tasks_of_mine/",
    "sql": "train game.kinds=sql_o",
    "studies": "lineage RUN",
    "trackers": "train run.trackers=tensorboard",
    "vllm": "train sampling.engine=vllm",
}
"""A command that needs each extra."""


def without(removed: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs the command line where these extras are deleted."""
    command = [sys.executable, "-c", HOOK, removed, *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the core alone."""
    folder = tmp_path_factory.mktemp("bare")
    done = without(",".join(EXTRAS), "train", "quickstart", *SMALL.split(), "--run", "run", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "done: 1 step" in done.stdout
    return folder


def test_every_extra_has_a_command_that_needs_it() -> None:
    assert set(NEEDED) == set(EXTRAS)


def test_a_folder_without_code_is_no_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "emptied" / "__pycache__").mkdir(parents=True)
    monkeypatch.setattr(extras, "__path__", [*extras.__path__, str(tmp_path)])
    monkeypatch.setitem(extras.OFFERS["recipe"], "emptied", "emptied:RECIPES")
    assert "emptied" in extras.missing("recipe")
    assert "emptied" not in extras.names("recipe")
    with pytest.raises(extras.MissingExtraError, match="needs the extra 'emptied', which is not installed"):
        extras.find("recipe", "emptied")


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize("extra", EXTRAS)
def test_what_needs_a_deleted_extra_says_so_in_a_line(bare: Path, extra: str) -> None:
    words = [word.replace("RUN", "run") for word in NEEDED[extra].split()]
    done = without(extra, *words, cwd=bare)
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("loading")]
    assert line.startswith("redqueen: ")
    assert line.endswith(
        f"needs the extra '{extra}', which is not installed: there is no folder redqueen/extras/{extra}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("extra", EXTRAS)
def test_a_run_without_an_extra_is_played_as_before(bare: Path, extra: str) -> None:
    done = without(extra, "train", "quickstart", *SMALL.split(), "--run", extra, cwd=bare)
    assert done.returncode == 0, done.stderr
    assert _numbers(bare / extra) == _numbers(bare / "run")


def _numbers(run: Path) -> list[object]:
    """Returns what a step's line has that no clock decides."""
    (line,) = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line[name] for name in ("loss", "grad_norm", "tokens_sampled", "solve_rate", "valid_rate", "statuses")]
