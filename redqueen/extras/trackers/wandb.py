"""Weights & Biases. Its own environment variables (WANDB_MODE, WANDB_PROJECT, ...) say where the numbers go."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from redqueen.base.optional import require
from redqueen.run.recording.recorder import Session
from redqueen.run.recording.samples import NAME, Row
from redqueen.run.recording.tracker import PROJECT, Tracker


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
            # The terminal is the run's own.
            settings=self._wandb.Settings(silent=True, console="off"),
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
