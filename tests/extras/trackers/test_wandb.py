"""Weights & Biases in its offline mode: the file that `wandb sync` would send."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.extras.trackers.recorded import EXPECTED, NULL, ROW, new_run, session

pytest.importorskip("wandb")


def records(data: bytes) -> Iterator[bytes]:
    """Yields the records of a file: LevelDB's log format, below a head of 7 bytes."""
    block, position = 32_768, 7
    record = b""
    while position < len(data):
        left = block - position % block
        if left < 7:
            position += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, position)
        record += data[position + 7 : position + 7 + length]
        position += 7 + length
        # A record is whole (1), or its last part (4) has come.
        if kind in (1, 4):
            yield record
            record = b""


def stored(file: Path) -> tuple[str, list[dict[str, Any]], set[str]]:
    """Returns the run's id, its history and the names of its settings."""
    from wandb.proto import wandb_internal_pb2

    name, history, settings, ended = "", [], set(), False
    for data in records(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        match record.WhichOneof("record_type"):
            case "run":
                name = record.run.run_id
                settings |= {item.key or "/".join(item.nested_key) for item in record.run.config.update}
            case "history":
                items = record.history.item
                history.append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items})
            case "exit":
                ended = True
    if not ended:
        # The library's own process may write the end of the file after the run has ended.
        time.sleep(0.1)
        return stored(file)
    return name, history, settings


def test_what_would_be_sent_has_every_number_and_one_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    directory = new_run(tmp_path, "wandb")
    (line,) = session(directory, 1, 2)
    assert line.startswith(f"wandb: wandb sync {directory.path}/wandb/offline-run-")
    session(directory, 3, 3)
    files = sorted((directory.path / "wandb").glob("offline-run-*/*.wandb"), key=lambda file: file.stat().st_mtime)
    parts = [stored(file) for file in files]
    assert {name for name, _, _ in parts} == {directory.tracker_ids()["wandb"]}
    history = [line for _, lines, _ in parts for line in lines]
    assert [line["_step"] for line in history] == [1, 2, 3]
    for line in history:
        assert EXPECTED.items() <= line.items()
        assert NULL not in line
    assert "learning.lr" in parts[0][2]
    assert [line.get("samples/nrows") for line in history] == [None, 1, None]
    (file,) = (directory.path / "wandb").glob(f"offline-run-*/files/{history[1]['samples/path']}")
    assert json.loads(file.read_text()) == {"columns": list(ROW), "data": [list(ROW.values())]}


def test_a_run_of_somebody_else_in_the_same_process_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    settings = wandb.Settings(silent=True, console="off")
    own = wandb.init(project="own", dir=str(tmp_path), settings=settings)
    own.log({"x": 1.0}, step=50)
    directory = new_run(tmp_path, "wandb")
    session(directory, 1, 1)
    assert directory.tracker_ids()["wandb"] != own.id
    (file,) = (directory.path / "wandb").glob("offline-run-*/*.wandb")
    assert [line["_step"] for line in stored(file)[1]] == [1]
    # It has not ended.
    own.log({"x": 2.0}, step=51)
    own.finish()
