"""MLflow with a SQLite file as its store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.extras.trackers.recorded import EXPECTED, NULL, ROW, new_run, session

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
    assert [file.path for file in client.list_artifacts(run.info.run_id, "samples")] == ["samples/step-000002.json"]
    file = client.download_artifacts(run.info.run_id, "samples/step-000002.json")
    assert json.loads(Path(file).read_text()) == {"columns": list(ROW), "data": [list(ROW.values())]}
    assert "samples/step-000002.json" in run.data.tags["mlflow.loggedArtifacts"]
