"""Recorders that send each step's numbers to another library's dashboard. None of them can stop a run.

TensorBoard writes event files into the run's folder. Weights & Biases reads its own environment variables (WANDB_MODE,
WANDB_PROJECT, ...). Trackio keeps its dashboard on this machine, or in a space of the Hugging Face hub if
TRACKIO_SPACE_ID names one. MLflow sends to MLFLOW_TRACKING_URI, and without it to mlflow.db in the current folder.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import time
import uuid
import warnings
from collections.abc import Mapping, Sequence
from itertools import islice
from textwrap import indent
from typing import Any

from redqueen.base.optional import require
from redqueen.run.recording.recorder import NAME, PROJECT, Row, Session, Tracker

FOLDER = "tensorboard"
"""The folder in the run's own that the event files are written to."""


class TensorBoard(Tracker):
    """Writes each number as a scalar, and the configuration as a text."""

    name = "tensorboard"

    def __init__(self, session: Session) -> None:
        """Opens a new event file. What earlier ones hold of the steps from `session.first` on is hidden."""
        super().__init__(session)
        # torch has the writer, and it needs the library's file format.
        require("tensorboard", "tensorboard", "run.trackers=tensorboard")
        module: Any = require("torch.utils.tensorboard", "tensorboard", "run.trackers=tensorboard")
        folder = session.directory.path / FOLDER
        self._writer = module.SummaryWriter(str(folder), purge_step=session.first)
        self._writer.add_text("configuration", f"```\n{json.dumps(session.settings(), indent=1)}\n```", session.first)
        self.where = f"tensorboard --logdir {session.directory.path}"

    def send(self, step: int, values: Mapping[str, float]) -> None:
        """Writes the numbers at once, so that a page can follow the run."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def send_samples(self, step: int, rows: Sequence[Row]) -> None:
        """Writes a text. What a model wrote may have any mark of Markdown in it, so it is indented: a block of code."""
        blocks: list[str] = []
        for row in rows:
            blocks.append(f"### {row['id']}")
            blocks += [f"{name}\n\n{indent(str(value), '    ', lambda _: True)}" for name, value in row.items()]
        self._writer.add_text(NAME, "\n\n".join(blocks), step)
        self._writer.flush()

    def finish(self) -> None:
        self._writer.close()


class WeightsAndBiases(Tracker):
    """Sends each step's numbers, with the configuration. A resumed run goes on under the same id."""

    name = "wandb"

    def __init__(self, session: Session) -> None:
        """Starts the run, or goes on with it. Without WANDB_MODE=offline this needs a login and a network."""
        super().__init__(session)
        self._wandb: Any = require("wandb", "wandb", "run.trackers=wandb")
        self._run = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=session.name,
            id=session.id,
            # Offline there is nothing to ask whether the run exists: the two parts have one id, and join when synced.
            resume="allow" if session.id else None,
            dir=str(session.directory.path),
            config=session.settings(),
            # A script or an earlier run may have one of its own in this process. The terminal is the run's own.
            settings=self._wandb.Settings(silent=True, console="off", reinit="create_new"),
        )
        self.id = str(self._run.id)
        offline = self._run.settings.mode == "offline"
        self.where = f"wandb sync {self._run.settings.sync_dir}" if offline else str(self._run.url)

    def send(self, step: int, values: Mapping[str, float]) -> None:
        """Sends the numbers. Steps that are played again are the same ones, and the library keeps the first."""
        self._run.log(dict(values), step=step)

    def send_samples(self, step: int, rows: Sequence[Row]) -> None:
        """Sends a table. It is part of the step, which ends when the next one is sent."""
        table = self._wandb.Table(columns=list(rows[0]), data=[list(row.values()) for row in rows])
        self._run.log({NAME: table}, step=step)

    def finish(self) -> None:
        self._run.finish()


class Trackio(Tracker):
    """Sends each step's numbers, with the configuration. A resumed run goes on under the same name."""

    name = "trackio"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._trackio: Any = require("trackio", "trackio", "run.trackers=trackio")
        # A run is found again by its name, so no other run may have it.
        self.id = session.id or f"{session.name}-{uuid.uuid4().hex[:6]}"
        # The library prints where it writes; the terminal is the run's own.
        with contextlib.redirect_stdout(io.StringIO()):
            self._run = self._trackio.init(
                project=PROJECT,
                name=self.id,
                resume="allow",
                config=session.settings(),
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )
        self.where = f"trackio show --project {PROJECT}"
        # The library prefers the space, too. What follows the server's address may be a token.
        if space := os.environ.get("TRACKIO_SPACE_ID"):
            self.where = f"the space {space} of the Hugging Face hub"
        elif server := os.environ.get("TRACKIO_SERVER_URL"):
            self.where = server.partition("?")[0]

    def send(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def send_samples(self, step: int, rows: Sequence[Row]) -> None:
        self._run.log({NAME: self._trackio.Table(data=[dict(row) for row in rows])}, step=step)

    def finish(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            self._trackio.finish()


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
        uri = self._mlflow.get_tracking_uri()
        # A server has a page of its own.
        self.where = uri if uri.startswith(("http", "databricks")) else f"mlflow ui --backend-store-uri {uri}"

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
