"""A run of the last version goes on, and is read: two steps of the toy game, played at commit b8cbb98."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

import redqueen
from redqueen.method.verifier import LocalVerifier
from redqueen.store import checkpoint
from redqueen.store.directory import RunDirectory, read_config
from tests import toy
from tests.cli.running import redqueen as command

ARCHIVE = Path(__file__).parent / "data" / "run_b8cbb98.tar.gz"


@pytest.fixture
def old(tmp_path: Path) -> RunDirectory:
    """The old run, with its base, whose random weights another processor would draw otherwise."""
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(tmp_path, filter="data")
    file = tmp_path / "run" / "config.json"
    told = json.loads(file.read_text())
    told["model"]["name"] = str(tmp_path / "model")
    file.write_text(json.dumps(told))
    return RunDirectory(tmp_path / "run")


def test_an_old_run_goes_on(old: RunDirectory, verifier: LocalVerifier) -> None:
    config = read_config(old.config_file).override(["run.steps=4"])
    player = toy.trainer(config, old.path, verifier, begin=False)
    saved = checkpoint.load(old.checkpoints, old.saved()[-1])
    player.restore(saved)
    player.run()
    player.close()
    assert [line["step"] for line in old.metrics()] == [1, 2, 3, 4]
    assert checkpoint.load(old.checkpoints, old.saved()[-1]).step == 4


def test_an_old_run_is_read(old: RunDirectory) -> None:
    assert [line["step"] for line in redqueen.Run(old.path).steps()] == [1, 2]
    for words in (("show", str(old.path)), ("lineage", str(old.path)), ("report", str(old.path)), ("keys",)):
        done = command(*words)
        assert done.returncode == 0, done.stderr
