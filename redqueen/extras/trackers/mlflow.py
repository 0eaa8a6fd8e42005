"""MLflow. MLFLOW_TRACKING_URI says where the numbers go; without it they go to mlflow.db in the current folder."""

from __future__ import annotations

import logging
import os
import re
import time
import warnings
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from redqueen.base.optional import require
from redqueen.run.recording.recorder import Session
from redqueen.run.recording.samples import NAME, Row
from redqueen.run.recording.tracker import PROJECT, Tracker

# What the library takes in one request, and how long a parameter's text may be in each of its stores.
_MOST_METRICS = 1000
_MOST_PARAMETERS = 100
_LONGEST = 500
_NO_NAME = re.compile(r"[^\w\-./ :]")


class MLflow(Tracker):
    """Sends each step's numbers as metrics, and the configuration as parameters. A resumed run goes on as the same."""

    name = "mlflow"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        # It tells of each table that it makes.
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        logging.getLogger("alembic").setLevel(logging.WARNING)
        self._mlflow: Any = require("mlflow", "mlflow", "run.trackers=mlflow")
        self._client = self._mlflow.MlflowClient()
        if session.id is not None:
            self.id = session.id
            self._client.update_run(self.id, status="RUNNING")
        else:
            self.id = self._client.create_run(self._experiment(), run_name=session.name).info.run_id
            self._set_parameters(session.settings())
        self.where = f"mlflow ui --backend-store-uri {self._mlflow.get_tracking_uri()}"

    def _experiment(self) -> str:
        """Returns the id of the experiment, which is made if it is not there."""
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        experiment = self._client.get_experiment_by_name(name)
        return experiment.experiment_id if experiment else self._client.create_experiment(name)

    def _set_parameters(self, settings: Mapping[str, object]) -> None:
        parameters = (self._mlflow.entities.Param(key, str(value)[:_LONGEST]) for key, value in settings.items())
        while batch := list(islice(parameters, _MOST_PARAMETERS)):
            self._client.log_batch(self.id, params=batch)

    def send(self, step: int, values: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        metric = self._mlflow.entities.Metric
        metrics = (metric(_NO_NAME.sub("_", name), value, now, step) for name, value in values.items())
        while batch := list(islice(metrics, _MOST_METRICS)):
            self._client.log_batch(self.id, metrics=batch)

    def send_samples(self, step: int, rows: Sequence[Row]) -> None:
        """Writes a table of its own for the step, as an artifact of the run."""
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        with warnings.catch_warnings():
            # It asks pandas 3 in a way of pandas 2. The terminal is the run's own.
            warnings.simplefilter("ignore")
            self._client.log_table(self.id, columns, f"{NAME}/step-{step:06}.json")

    def finish(self) -> None:
        self._client.set_terminated(self.id)
