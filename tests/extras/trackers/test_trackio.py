"""Trackio's local store: in a process of its own, because the library reads its folder's name when it is loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.extras.trackers.recorded import EXPECTED, NULL, ROW

pytest.importorskip("trackio")

SCRIPT = """
import json, sys
from pathlib import Path
from tests.extras.trackers.recorded import new_run, session
directory = new_run(Path(sys.argv[1]), "trackio")
said = session(directory, 1, 2) + session(directory, 3, 3)
from trackio.sqlite_storage import SQLiteStorage
(name,) = SQLiteStorage.get_runs("redqueen")
Path(sys.argv[2]).write_text(json.dumps({
    "said": said, "name": name, "known": directory.tracker_ids()["trackio"],
    "logs": SQLiteStorage.get_logs("redqueen", name), "config": SQLiteStorage.get_run_config("redqueen", name),
}))
"""


def test_a_resumed_run_is_one_run(tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    environment = {**os.environ, "TRACKIO_DIR": str(tmp_path / "trackio"), "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(answer)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(answer.read_text())
    assert found["said"] == ["trackio: trackio show --project redqueen"] * 2
    assert found["name"] == found["known"]
    assert found["name"].startswith("runs/mine-")
    # Step 2 has a table, which is a line of its own.
    assert [line["step"] for line in found["logs"]] == [1, 2, 2, 3]
    (table,) = [line.pop("samples") for line in found["logs"] if "samples" in line]
    assert table == {"_type": "trackio.table", "_value": [ROW]}
    for line in found["logs"][:2] + found["logs"][3:]:
        assert EXPECTED.items() <= line.items()
        assert NULL not in line
    assert found["config"]["learning.lr"] == 1e-4
    # The terminal is the run's own.
    assert done.stdout == ""
