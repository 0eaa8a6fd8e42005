"""`--push`: a member, tasks and a report are published by the hub's own library, to a stand-in of the hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import DatasetCard, ModelCard, RepoCard

from tests.cli.archived import archived
from tests.cli.fake_hub import Hub, fake_hub
from tests.cli.running import redqueen


@pytest.fixture
def hub() -> Iterator[Hub]:
    with fake_hub() as there:
        yield there


def published(hub: Hub, *args: str) -> subprocess.CompletedProcess[str]:
    """A command with the hub's address, which the library reads when it is imported."""
    env = {
        **os.environ,
        "HF_ENDPOINT": hub.url,
        "HF_TOKEN": "hf_test",
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",
    }
    return subprocess.run(
        [sys.executable, "-m", "redqueen", *args], env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.integration
def test_a_member_is_published_with_a_card_that_the_library_reads(hub: Hub, evaluated: Path, tmp_path: Path) -> None:
    out = tmp_path / "student"
    done = published(hub, "export", str(evaluated), "best-student", str(out), "--push", "user/student")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"published: {hub.url}/user/student" in done.stdout
    assert hub.made["user/student"]["visibility"] == "private"
    files = hub.files["user/student"]
    assert {name: files[name] for name in files} == {each.name: each.read_bytes() for each in out.iterdir()}
    card = ModelCard(files["README.md"].decode())
    assert card.data.library_name == "peft"
    (result,) = card.data.eval_results
    assert (result.dataset_type, result.metric_type) == ("reserved", "solve_rate")
    assert 0 <= result.metric_value <= 1


@pytest.mark.slow
@pytest.mark.integration
def test_tasks_and_a_report_are_published(hub: Hub, tmp_path: Path, finished: Path) -> None:
    run = archived(tmp_path / "run")
    done = published(hub, "tasks", "export", str(run), "--out", str(tmp_path / "tasks"), "--push", "user/tasks")
    assert done.returncode == 0, done.stdout + done.stderr
    assert hub.made["user/tasks"]["type"] == "dataset"
    files = hub.files["user/tasks"]
    assert files["data/tasks.parquet"] == (tmp_path / "tasks" / "data" / "tasks.parquet").read_bytes()
    assert "redqueen" in DatasetCard(files["README.md"].decode()).data.tags

    done = published(hub, "report", str(finished), "--out", str(tmp_path / "r.html"), "--push", "user/report")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (hub.made["user/report"]["type"], hub.made["user/report"]["sdk"]) == ("space", "static")
    assert hub.files["user/report"]["index.html"] == (tmp_path / "r.html").read_bytes()
    assert RepoCard(hub.files["user/report"]["README.md"].decode()).data.to_dict()["sdk"] == "static"


@pytest.mark.slow
@pytest.mark.integration
def test_what_the_hub_refuses_is_one_line(hub: Hub, tmp_path: Path) -> None:
    hub.refused = True
    run = archived(tmp_path / "run")
    done = published(hub, "tasks", "export", str(run), "--out", str(tmp_path / "tasks"), "--push", "user/tasks")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert "cannot publish" in done.stderr
    # What was written stays.
    assert (tmp_path / "tasks" / "README.md").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "t.jsonl", "--push", "user/tasks"], "--push publishes a folder with a card"),
        (["--out", "tasks/", "--push", "tasks"], "write USER/NAME"),
        (["--out", "tasks/", "--push", "user/tasks"], "--push needs a login"),
    ],
)
def test_what_cannot_be_published_is_refused_before_anything_is_written(
    options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    run = archived(tmp_path / "run")
    done = redqueen("tasks", "export", str(run), *options, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["run"]


@pytest.fixture(scope="session")
def evaluated(tmp_path_factory: pytest.TempPathFactory, model: str) -> Path:
    """A run of one step whose students were evaluated at its end."""
    from tests.cli.conftest import SMALL

    run = tmp_path_factory.mktemp("evaluated") / "run"
    settings = ["evals.every=1", "evals.limit=3"]
    done = redqueen("train", "--run", str(run), "--steps", "1", "--model", model, *SMALL, *settings)
    assert done.returncode == 0, done.stderr
    assert json.loads((run / "config.json").read_text())["evals"]["every"] == 1
    return run
