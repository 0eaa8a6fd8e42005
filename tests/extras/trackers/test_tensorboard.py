"""TensorBoard reads what was written, also after a resume."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extras.trackers.recorded import EXPECTED, NULL, ROW, new_run, session

pytest.importorskip("tensorboard")


def test_curves_are_read_back_and_go_on_after_a_resume(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing import plugin_event_accumulator
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    directory = new_run(tmp_path, "tensorboard")
    assert session(directory, 1, 5) == [f"tensorboard: tensorboard --logdir {directory.path}"]
    # The run was killed after step 5, and its newest checkpoint is of step 3: two steps are played again.
    session(directory, 4, 6)
    events = EventAccumulator(str(directory.path / "tensorboard"))
    events.Reload()
    for name, value in EXPECTED.items():
        assert [(event.step, event.value) for event in events.Scalars(name)] == [(step, value) for step in range(1, 7)]
    assert NULL not in events.Tags()["scalars"]
    # What the page of texts reads with; the other one does not hide the steps that were played twice.
    pages = plugin_event_accumulator.EventAccumulator(str(directory.path / "tensorboard"))
    pages.Reload()
    tables = pages.Tensors("samples/text_summary")
    assert [event.step for event in tables] == [2, 4, 6]
    (text,) = tables[0].tensor_proto.string_val
    assert text.decode().startswith(f"### {ROW['id']}\n\nid\n\n    {ROW['id']}\n\n")
    assert "program\n\n    def f(x):\n        return x\n\n" in text.decode()
    assert b"learning.lr" in events.Tensors("configuration/text_summary")[0].tensor_proto.string_val[0]
