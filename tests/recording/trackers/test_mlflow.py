"""MLflow with a SQLite file as its store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recording.trackers.recorded import EXPECTED, NULL, new_run, session

pytest.importorskip("mlflow")


def test_metrics_and_parameters_are_read_back_and_go_on_after_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    store = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.chdir(tmp_path)
    directory = new_run(tmp_path, "mlflow")
    assert session(directory, 1, 2) == [f"mlflow: mlflow ui --backend-store-uri {store}"]
    assert session(directory, 3, 3) == [f"mlflow: mlflow ui --backend-store-uri {store}"]
    client = MlflowClient()
    experiment = client.get_experiment_by_name("redqueen")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.run_id == directory.tracker_ids()["mlflow"]
    assert (run.info.run_name, run.info.status) == ("runs/mine", "FINISHED")
    assert run.data.params["learning.lr"] == "0.0001"
    for name, value in EXPECTED.items():
        history = client.get_metric_history(run.info.run_id, name)
        assert [(metric.step, metric.value) for metric in history] == [(1, value), (2, value), (3, value)]
    assert NULL not in run.data.metrics
