"""`redqueen train --ray` without Ray, and with a cluster that is not there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from redqueen.base.optional import is_installed
from redqueen.store.directory import RunDirectory
from tests.cli.conftest import SMALL
from tests.cli.running import redqueen, started


@pytest.mark.skipif(is_installed("ray"), reason="Ray is installed")
def test_without_ray_the_run_ends_in_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    done = redqueen("train", "--ray", "--run", str(tmp_path / "run"))
    assert done.returncode == 2
    assert "a run on a cluster (--ray) needs ray, which is not installed: pip install '.[ray]'" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(not is_installed("ray"), reason="the extra `ray` is not installed: make test-ray")
def test_a_cluster_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = redqueen("train", "--ray", "127.0.0.1:1", "--run", str(tmp_path / "run"))
    assert done.returncode == 2
    assert "cannot reach a Ray cluster at 127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(not is_installed("ray"), reason="the extra `ray` is not installed: make test-ray")
def test_a_killed_driver_leaves_no_process_and_its_run_goes_on(
    tmp_path: Path, tiny_folder: Callable[[str], Path]
) -> None:
    run = tmp_path / "run"
    small = [*SMALL, f"model.name={tiny_folder('llama')}", "run.steps=4"]
    command = ["train", "--ray", "cluster.replicas=2", "--run", str(run), *small]
    with started(*command) as driver:
        while not (run / "metrics.jsonl").exists():
            assert driver.poll() is None, driver.communicate()
            time.sleep(0.05)
        actors = {process.pid for process in psutil.Process(driver.pid).children(recursive=True)}
        driver.kill()
    assert len(actors) > 3
    deadline = time.monotonic() + 240
    while any(alive(pid) for pid in actors):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    done = redqueen("train", "--ray", "--resume", str(run))
    assert done.returncode == 0, done.stderr
    steps = [line["step"] for line in RunDirectory(run).metrics()]
    assert steps == [1, 2, 3, 4]


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
