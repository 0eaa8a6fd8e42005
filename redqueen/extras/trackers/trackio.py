"""Trackio: a dashboard on this machine, or in a space of the Hugging Face hub if TRACKIO_SPACE_ID names one."""

from __future__ import annotations

import contextlib
import io
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from redqueen.base.optional import require
from redqueen.run.recording.recorder import Session
from redqueen.run.recording.samples import NAME, Row
from redqueen.run.recording.tracker import PROJECT, Tracker


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

    def send(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def send_samples(self, step: int, rows: Sequence[Row]) -> None:
        self._run.log({NAME: self._trackio.Table(data=[dict(row) for row in rows])}, step=step)

    def finish(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            self._trackio.finish()
