"""`redqueen train`: what it leaves, what it refuses, and how it stops and resumes."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from redqueen.cli.train import _dropped
from redqueen.config import Config, ConfigError
from redqueen.config.recipes import configure, recipe_for
from redqueen.run.session import warnings_about
from redqueen.store.directory import RunDirectory
from redqueen.tasks.python import reserved, seeds
from tests import tiny
from tests.cli.conftest import SMALL
from tests.cli.running import redqueen, started

pytestmark = pytest.mark.integration


def test_dry_run_prints_the_resolved_config_and_writes_nothing(tmp_path: Path) -> None:
    done = redqueen("train", "coder_0_5b", "--dry-run", "--json", "--for", "24GB", "--steps", "7", cwd=tmp_path)
    config = json.loads(done.stdout)
    assert (config["run"]["steps"], config["model"]["rank"], config["population"]["teachers"]) == (7, 16, 4)
    assert list(tmp_path.iterdir()) == []


def test_dry_run_says_on_standard_error_what_memory_a_run_needs(tmp_path: Path) -> None:
    folder = str(tiny.make(tmp_path / "model"))
    done = redqueen("train", "--dry-run", "--json", "--model", folder, "model.workers=2", cwd=tmp_path)
    assert json.loads(done.stdout)["model"]["workers"] == 2
    assert [line.split()[:2] for line in done.stderr.splitlines() if line.startswith(" members")] == [
        ["members:", "weights"],
        ["members:", "AdamW"],
        ["members:", "gradients"],
    ]
    most, least = (line for line in done.stderr.splitlines() if line.startswith(" in all"))
    assert int(most.split()[-1].replace(",", "")) > int(least.split()[-1].replace(",", ""))
    missing = redqueen("train", "--dry-run", "--model", str(tmp_path / "nothing"), cwd=tmp_path)
    assert missing.returncode == 2, "a run would be refused as well"
    assert "does not exist: give a model's folder" in missing.stderr
    missing = redqueen("train", "--dry-run", "--for", "24GB", "--model", str(tmp_path / "nothing"), cwd=tmp_path)
    assert missing.returncode == 1


def test_a_plan_is_five_lines_the_answer_first_and_settings_only_if_asked_for(tmp_path: Path) -> None:
    folder = str(tiny.make(tmp_path / "model"))
    done = redqueen("train", "--dry-run", "--model", folder, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "planning quickstart ...\n" in done.stderr
    answer, *others = done.stdout.splitlines()
    assert answer.startswith("it fits")
    assert len(others) <= 4
    assert others[-1] == "every setting, and the memory by parts: add --json"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("game.seeds=nothing.txt", "nothing.txt"),
        ("game.tasks=nothing", "nothing"),
        ("model.device=cuda", "torch sees no CUDA device"),
    ],
)
def test_a_plan_refuses_what_the_run_refuses(tmp_path: Path, setting: str, said: str) -> None:
    folder = str(tiny.make(tmp_path / "model"))
    done = redqueen("train", "rlvr", "--dry-run", "--model", folder, setting, cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "recipe"),
    [
        ("HuggingFaceTB/SmolLM2-135M", "overnight"),
        ("HuggingFaceTB/SmolLM2-360M-Instruct", "coder_0_5b"),
        ("Qwen/Qwen2.5-0.5B-Instruct", "coder_0_5b"),
        ("Qwen/Qwen2.5-Coder-1.5B", "coder_1_5b"),
        ("meta-llama/Llama-3.2-3B", "coder_3b"),
        ("mistralai/Mistral-7B-v0.3", "coder_7b"),
    ],
)
def test_a_model_without_a_recipe_gets_the_one_for_its_size(name: str, recipe: str) -> None:
    found = recipe_for(name)
    assert found is not None
    assert found[0] == recipe


def test_a_model_of_unknown_size_asks_for_a_recipe() -> None:
    with pytest.raises(ConfigError, match="name one, such as redqueen train coder_0_5b --model openai-community/gpt2"):
        recipe_for("openai-community/gpt2")


def warned(config: Config) -> list[str]:
    return warnings_about(config.sampling, config.game, config.population.init, config.model.name)


@pytest.mark.parametrize("override", ["sampling.top_p=0.9", "sampling.top_k=40"])
def test_a_run_warns_that_truncated_sampling_is_off_policy(override: str) -> None:
    (line,) = warned(configure([override]))
    assert "off-policy" in line
    assert warned(configure([])) == []


def test_seeds_that_are_left_out_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "own.txt"
    drafts = [reserved()[0], seeds()[0]]
    file.write_text("\n\n".join(f"# {draft.message}\n{draft.program}\nf({draft.inputs[0]})" for draft in drafts))
    (line,) = warned(configure([f"game.seeds={file}"]))
    assert f"warning: 1 of 2 programs of {file} are similar to held-out ones" in line


def test_a_run_leaves_its_files(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    assert {"config.json", "environment.json", "metrics.jsonl", "run.sqlite", "checkpoints"} <= names
    lines = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    assert all(line["time"].endswith("Z") for line in lines)
    environment = json.loads((finished / "environment.json").read_text())
    assert environment["command"].startswith("redqueen train --run ")
    assert {"date", "commit", "processor", "cores", "fitted"} <= environment.keys()
    assert environment["isolation"]
    assert len(environment["base_fingerprint"]) == 64


def test_training_into_a_finished_run_says_what_is_there_and_changes_nothing(finished: Path, model: str) -> None:
    before = {p: p.stat().st_mtime_ns for p in finished.rglob("*")}
    done = redqueen("train", "--run", str(finished), "--steps", "2", "--model", model, *SMALL)
    assert done.returncode == 0
    for word in ("2 of 2 steps done", "extend:", "start again:"):
        assert word in done.stdout
    assert {p: p.stat().st_mtime_ns for p in finished.rglob("*")} == before


@pytest.mark.slow
def test_a_finished_run_can_be_extended(finished: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    # A kill between the records of a step and its checkpoint: the step is played again, and counts.
    shutil.rmtree(run / "checkpoints" / "step-000002")
    done = redqueen("train", "--resume", str(run), "--steps", "3")
    assert done.returncode == 0, done.stderr
    assert "resuming at step 2 of 3" in done.stdout
    assert "done: 2 more steps in" in done.stdout
    assert json.loads((run / "config.json").read_text())["run"]["steps"] == 3


@pytest.mark.slow
def test_a_run_keeps_its_number_format_on_a_processor_that_has_another_one(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    others = [setting for setting in SMALL if not setting.startswith("model.dtype=")]
    begun = ("train", "--run", str(run), "--steps", "1", "--model", model, *others, "model.dtype=auto")
    redqueen(*begun)
    used = json.loads((run / "environment.json").read_text())["dtype"]
    assert RunDirectory(run).config().model.dtype == used
    # What `auto` would choose there.
    monkeypatch.setenv("REDQUEEN_DTYPE", "float32" if used == "bfloat16" else "bfloat16")
    again = redqueen(*begun)
    assert again.returncode == 0, again.stderr
    assert "1 of 1 steps done" in again.stdout
    done = redqueen("train", "--resume", str(run), "--steps", "2")
    assert done.returncode == 0, done.stderr
    assert "resuming at step 2 of 2" in done.stdout


def test_a_run_that_no_longer_fits_into_memory_is_refused_before_it_is_resumed(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)

    monkeypatch.setattr("redqueen.engine.memory.machine.free_memory", lambda: 1000)
    before = {p: p.stat().st_mtime_ns for p in run.rglob("*")}
    done = redqueen("train", "--resume", str(run), "--steps", "3")
    assert done.returncode == 2
    assert "GiB free" in done.stderr
    assert {p: p.stat().st_mtime_ns for p in run.rglob("*")} == before


def test_what_a_full_disk_left_is_cleared_before_a_resumed_run_needs_room(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = shutil.copytree(finished, tmp_path / "run")
    half = run / "checkpoints" / ".step-000003.tmp"
    half.mkdir()
    (half / "state.json").write_text("{")
    monkeypatch.setattr("redqueen.engine.memory.machine.free_memory", lambda: 1000)
    assert "GiB free" in redqueen("train", "--resume", str(run), "--steps", "3").stderr
    assert not half.exists()


def test_a_second_trainer_is_refused_and_ctrl_c_says_how_to_resume(tmp_path: Path, model: str) -> None:
    run = tmp_path / "run"
    with started("train", "--run", str(run), "--steps", "5000", "--model", model, *SMALL) as process:
        _wait_for_lines(run / "metrics.jsonl", 2, process)
        second = redqueen("train", "--resume", str(run))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert second.returncode == 2
    assert "another process is training" in second.stderr
    assert process.returncode == 130, err
    assert f"redqueen train --resume {run}" in out
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("saved", "recorded", "said"),
    [
        ([], 0, ""),
        ([0, 5], 5, "; the unfinished step was dropped"),
        ([5], 6, "; the newest checkpoint is of step 5, so step 6 is played again"),
        ([5], 9, "; the newest checkpoint is of step 5, so steps 6 to 9 are played again"),
    ],
)
def test_a_stop_says_what_is_played_again(tmp_path: Path, saved: list[int], recorded: int, said: str) -> None:
    directory = RunDirectory(tmp_path)
    for step in saved:
        (directory.checkpoints / f"step-{step:06}").mkdir(parents=True)
    for step in range(1, recorded + 1):
        directory.append_metrics({"step": step})
    assert _dropped(directory) == said


@pytest.mark.slow
def test_sigterm_stops_like_ctrl_c(tmp_path: Path, model: str) -> None:
    run = tmp_path / "run"
    with started("train", "--run", str(run), "--steps", "5000", "--model", model, *SMALL) as process:
        _wait_for_lines(run / "metrics.jsonl", 1, process)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, err
    assert "stopped by SIGTERM" in out
    assert f"redqueen train --resume {run}" in out
    assert "Traceback" not in err


@pytest.mark.slow
def test_a_resumed_run_takes_what_does_not_change_its_results(finished: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    kept = ("run.keep_last=5", "sandbox.workers=2", "model.threads=2", "model.device=cpu", "run.checkpoint_every=1")
    done = redqueen("train", "--resume", str(run), "--steps", "4", *kept)
    assert done.returncode == 0, done.stderr
    assert {1, 2, 3, 4} <= set(RunDirectory(run).saved())
    assert RunDirectory(run).config().run.keep_last == 5
    environment = json.loads((run / "environment.json").read_text())
    assert "--resume" in environment["resumed"][0]["command"]


def test_a_configuration_can_be_given_back(finished: Path, tmp_path: Path) -> None:
    file = str(finished / "config.json")
    done = redqueen("train", "--config", file, "--dry-run", "--json", "run.seed=7", cwd=tmp_path)
    stored = json.loads((finished / "config.json").read_text())
    stored["run"]["seed"] = 7
    assert json.loads(done.stdout) == stored
    again = redqueen("train", "--config", file, "--run", str(finished), cwd=tmp_path)
    assert again.returncode == 0, "the same configuration is no error"
    assert "2 of 2 steps done" in again.stdout


@pytest.mark.slow
def test_a_start_that_failed_does_not_block_the_next(tmp_path: Path, model: str) -> None:
    args = ("train", "--run", "runs/it", "--steps", "1", "--model", model, *SMALL)
    failed = redqueen(*args, "population.init=typo", cwd=tmp_path)
    assert failed.returncode == 2
    assert list(tmp_path.iterdir()) == []
    done = redqueen(*args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exp#1 a?b lr50%25", "[lr=1e-4] läuft-ピ", ":smile: 'x'"])
def test_a_run_may_have_any_name(finished: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(finished, tmp_path / name)
    said = redqueen("train", "--config", f"{name}/config.json", "--run", name, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert f"redqueen train --resume {shlex.quote(name)} --steps 12" in said.stdout
    for command in ("lineage", "report"):
        assert redqueen(command, name, cwd=tmp_path).returncode == 0
    out = redqueen("export", name, "S0", f"{name} out", cwd=tmp_path)
    assert out.returncode == 0
    assert f"{name} out" in out.stdout
    done = redqueen("train", "--resume", name, "--steps", "3", cwd=tmp_path)
    assert f"redqueen export {shlex.quote(name)} best-student" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {name, f"{name} out"}


@pytest.mark.slow
def test_a_run_that_learns_nothing_says_so(tmp_path: Path, model: str) -> None:
    done = redqueen("train", "--run", str(tmp_path / "run"), "--steps", "3", "--model", model, *SMALL)
    assert done.returncode == 0
    assert "no proposal was valid for 2 steps, so nothing is learnt" in done.stdout
    assert "3 of 3 steps had no valid proposal" in done.stdout


def test_the_first_lines_say_what_runs_and_how_to_stop_it(tmp_path: Path, model: str) -> None:
    done = redqueen("train", "--run", str(tmp_path / "my run"), "--steps", "1", "--model", model, *SMALL)
    run, base, follow, stop = done.stdout.splitlines()[:4]
    assert run == f"run: {tmp_path}/my run: recipe quickstart, seed 0, 1 step, 2 + 2 members (teachers + students)"
    assert "in 1 process" in base
    assert follow.endswith(f"redqueen watch '{tmp_path}/my run'")
    assert stop.endswith(f"redqueen train --resume '{tmp_path}/my run'")


def _wait_for_lines(path: Path, count: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not path.exists() or path.read_text().count("\n") < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
