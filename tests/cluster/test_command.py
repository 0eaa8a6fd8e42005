"""`redqueen train --ray` without Ray, and with a cluster that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from redqueen.optional import is_installed
from tests.commands.running import redqueen


@pytest.mark.skipif(is_installed("ray"), reason="Ray is installed")
def test_without_ray_the_run_ends_in_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    done = redqueen("train", "--ray", "--run", str(tmp_path / "run"))
    assert done.returncode == 2
    assert "a run on a cluster (--ray) needs ray, which is not installed: pip install 'redqueen[ray]'" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(not is_installed("ray"), reason="the extra `ray` is not installed: make test-ray")
def test_a_cluster_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = redqueen("train", "--ray", "127.0.0.1:1", "--run", str(tmp_path / "run"))
    assert done.returncode == 2
    assert "cannot reach a Ray cluster at 127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()
