"""TensorBoard: event files in the run's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from textwrap import indent
from typing import Any

from redqueen.base.optional import require
from redqueen.run.recording.recorder import Session
from redqueen.run.recording.samples import NAME, Row
from redqueen.run.recording.tracker import Tracker

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
