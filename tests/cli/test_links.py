"""A sent run in which one file or folder after the other leads elsewhere: no command changes what is not the run's."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from redqueen.errors import UserError
from redqueen.extras.page.app import VIEWS, make_app
from redqueen.extras.page.live_run import Folder
from tests.cli.conftest import SMALL
from tests.cli.running import redqueen
from tests.thinned import thinned

pytestmark = pytest.mark.integration

STEP = "checkpoints/step-000002"
# What a finished run of one member has.
THERE = (
    *(".lock", "config.json", "environment.json", "metrics.jsonl", "run.sqlite", "checkpoints"),
    *(STEP, f"{STEP}/state.json", f"{STEP}/manifest.json", f"{STEP}/members", f"{STEP}/members/A0"),
    f"{STEP}/members/A0/adapter_config.json",
    f"{STEP}/members/A0/adapter_model.safetensors",
    f"{STEP}/members/A0/optimizer.safetensors",
)
# What commands write that is not there yet, or only while they write.
FILES = (
    *("run.sqlite-wal", "run.sqlite-shm", "run.sqlite-journal"),
    *("evaluation.json", "report.html", "now.json", "stopped.json", "trackers.json"),
    *(f".{name}.tmp" for name in ("config.json", "environment.json", "metrics.jsonl", "evaluation.json")),
    *(".report.html.tmp", ".now.json.tmp", ".stopped.json.tmp", ".trackers.json.tmp"),
)
FOLDERS = (
    *("tensorboard", "wandb", "checkpoints/step-000003"),
    *("checkpoints/.step-000003.tmp", "checkpoints/.step-000009.tmp"),
)
LATER = (
    *((name, "file") for name in FILES),
    *((name, "folder") for name in FOLDERS),
    *((name, "new") for name in ("evaluation.json", "run.sqlite-wal", "checkpoints/step-000003", "wandb")),
)
COMMANDS = (
    "train --resume sent --steps 3",
    "eval sent --benchmarks reserved --limit 1 --max-tokens 2",
    "show sent",
    "lineage sent --json",
    "report sent",
    "report sent --markdown",
    "export sent A0 out/member",
    "tasks export sent --out out/tasks.jsonl",
    "ask sent A0 question.txt",
    "compare sent sent2",
    "retention sent --seeds 1 --updates 1 --tasks 1",
    "ancestry sent",
)


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory, model: str) -> Path:
    """A run of one member and two steps, with one checkpoint: as few files as a run can have. No test may change it."""
    run = tmp_path_factory.mktemp("links") / "run"
    one = ("population.single_agent=true", "population.teachers=1", "population.students=1", "run.keep_every=0")
    done = redqueen("train", "--run", str(run), "--steps", "2", "--model", model, *SMALL, *one, "run.keep_last=1")
    assert done.returncode == 0, done.stderr
    return run


@pytest.fixture
def place(alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the run `sent`, and with `outside`: another run, and files of its owner."""
    for name in ("sent", "sent2", "outside/victim"):
        shutil.copytree(alone, tmp_path / name)
    # What is not the run's differs from what a command would write there.
    metrics = tmp_path / "outside/victim/metrics.jsonl"
    metrics.write_text(metrics.read_text().replace(" ", "  ", 1))
    (tmp_path / "outside/folder").mkdir()
    for name in ("file", "folder/file", "folder/state.json"):
        (tmp_path / "outside" / name).write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "question.txt").write_text("def f(x):\n    return x * 2\n\nf(4) == ?\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    """Returns the checksum of every file, and where links lead."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        what = os.readlink(path) if path.is_symlink() else "folder"
        if path.is_file() and not path.is_symlink():
            what = hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(folder))] = what
    return found


def look(run: Path) -> None:
    """Asks the page for all that it shows of a run."""
    try:
        client = TestClient(make_app(Folder(run)), base_url="http://127.0.0.1:8642")
    except UserError:
        return
    for view in ("runs", *VIEWS):
        client.get(f"/api/{view}", params={"name": "A0"})


def put_link(run: Path, name: str, target: Path) -> None:
    """Puts a link in the place of a file or folder of the run."""
    path = run / name
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def run_all(place: Path) -> list[str]:
    """Runs every command on the run, and returns those after which something outside differs from what was there."""
    harmful: list[str] = []
    kept = shutil.copytree(place / "sent", place / "kept", symlinks=True)
    before = contents(place / "outside")
    shutil.copytree(place / "outside", place / "whole", symlinks=True)
    for command in (*COMMANDS, "watch sent"):
        try:
            look(place / "sent") if command == "watch sent" else redqueen(*command.split())
        finally:
            if contents(place / "outside") != before:
                harmful.append(command)
                shutil.rmtree(place / "outside")
                shutil.copytree(place / "whole", place / "outside", symlinks=True)
            # Each command meets the run as it was sent.
            for name, original in (("sent", kept), ("out", None)):
                shutil.rmtree(place / name)
                shutil.copytree(original, place / name, symlinks=True) if original else (place / name).mkdir()
    return harmful


@pytest.mark.slow
@pytest.mark.parametrize("name", thinned(THERE, 4))
def test_a_link_in_place_of_anything_in_a_run_leads_no_command_out_of_it(place: Path, name: str) -> None:
    put_link(place / "sent", name, place / "outside/victim" / name)
    assert run_all(place) == []
    refused = redqueen("train", "--resume", "sent", "--steps", "3")
    assert refused.returncode == 2
    assert f"{Path('sent') / name} is a link, and a run holds its own files" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), thinned(LATER, 5))
def test_a_link_where_a_command_will_write_leads_it_nowhere(place: Path, name: str, target: str) -> None:
    put_link(place / "sent", name, place / "outside" / target)
    assert run_all(place) == []
    refused = redqueen("train", "--resume", "sent", "--steps", "3")
    assert f"{Path('sent') / name} is a link, and a run holds its own files" in refused.stderr
