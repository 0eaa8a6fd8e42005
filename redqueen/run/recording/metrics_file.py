"""Writes metrics.jsonl: one line for each step."""

from __future__ import annotations

from collections.abc import Sequence

from redqueen.run.recording.metrics import step_metrics
from redqueen.run.recording.recorder import Recorder, StepRecord
from redqueen.store.directory import RunDirectory
from redqueen.store.files import InPlace


class MetricsRecorder(Recorder):
    """Appends each step's line to metrics.jsonl, the metrics of plugins that are called `own` among it."""

    def __init__(self, directory: RunDirectory, own: Sequence[str] = ()) -> None:
        self.directory = directory
        self.own = own
        self._place = InPlace(directory.metrics_file)

    def record(self, record: StepRecord) -> None:
        """Appends the step's line. Raises OSError if it cannot be written, RunError if the file is no longer there."""
        self._place.check()
        self.directory.append_metrics(step_metrics(record, self.own))
        self._place.check()

    def rewind(self, step: int) -> None:
        """Drops the lines of the steps after `step`: a resumed run plays those steps again."""
        self.directory.rewind_metrics(step)
        # The file is a new one now.
        self._place = InPlace(self.directory.metrics_file)
