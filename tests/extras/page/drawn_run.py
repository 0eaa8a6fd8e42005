"""A long run that nobody played, to look at the page with: `python -m tests.extras.page.drawn_run FOLDER [STEPS]`.

Its archive is the benchmarks' (`benchmarks.synthetic_run`). Its lines have every number that a chart shows, drawn as
slow waves with noise.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from benchmarks.synthetic_run import Size, SyntheticRun
from redqueen.store.archive.rows import Row
from redqueen.store.metrics import StepMetrics
from redqueen.tasks.python import NAMES

EVERY = 10
"""Steps from one held-out evaluation to the next."""
PROBLEMS = 280
_MEASURES = {"depth": 7, "cyclomatic": 3, "lines": 5, "variables": 3, "nodes": 25, "node_types": 14}
_CELLS = {"programs": 100, "paths": 345, "functions": 27, "signatures": 33, "behaviours": 97}


class DrawnRun(SyntheticRun):
    """A run of 4 teachers and 4 students."""

    def __init__(self, folder: Path, steps: int) -> None:
        super().__init__(folder, Size(steps=steps, matches=4, tasks=9, attempts=4))

    def _line(self, step: int, rows: Sequence[Row]) -> StepMetrics:
        line = cast(dict[str, Any], super()._line(step, rows))
        members = cast(Mapping[str, Any], line["members"])
        for name, member in members.items():
            age = step - member["born"]
            member["sigma"] = 1.2 + 3 * math.exp(-age / 6)
            member["role"] = "teacher" if name.startswith("T") else "student"
        solved = {kind: self._wave(step, 0.45 + 0.1 * n, 0.12, n) for n, kind in enumerate(NAMES)}
        line |= {
            "valid_rate": self._wave(step, 0.88, 0.04, 1),
            "valid_rate_by_kind": {kind: self._wave(step, 0.88, 0.05, n) for n, kind in enumerate(NAMES)},
            "novel_rate": self._wave(step, 0.7, 0.1, 2),
            "novel_rate_by_kind": {kind: self._wave(step, 0.7, 0.1, n) for n, kind in enumerate(NAMES)},
            "solve_rate": sum(solved.values()) / len(solved),
            "solve_rate_by_kind": solved,
            "teacher_reward": self._wave(step, 0.3, 0.1, 1),
            "student_reward": self._wave(step, 0.2, 0.1, 2),
            "response_tokens": {"teacher": 60 + step / 8, "student": 30 + self.rng.gauss(0, 3)},
            "tokens_by_phase": {"propose": 30_000, "solve": 70_000, "learn": 90_000, "evolve": 4_000},
            "throughput": self._throughput(step),
            "new_shape_rate": self._wave(step, 0.8, 0.1, 1),
            "repeated_rate": 0.02,
            "new_paths": 3 * math.exp(-step / 40) + 0.2,
            "paths_per_node": 0.8,
            "guessable": {"tasks": 30, "rate": 0.3, "by_random": 0.1, "by_echo": 0.2, "by_few_outputs": 0.1},
            **self._measured(step),
        }
        if step % EVERY == 0:
            students = [name for name, member in members.items() if member["role"] == "student"]
            line |= self._evaluated(step, students)
        return cast(StepMetrics, line)

    def _wave(self, step: int, middle: float, height: float, phase: int) -> float:
        """Returns a share that swings slowly, with noise."""
        value = middle + height * math.sin(step / 17 + 2 * phase) + self.rng.gauss(0, 0.08)
        return min(1.0, max(0.0, value))

    def _throughput(self, step: int) -> dict[str, Any]:
        def phase(sampled: float | None, trained: float | None, mfu: float, memory: float) -> dict[str, Any]:
            return {
                "sampled_per_second": sampled,
                "prompt_tokens": 12_000 if sampled else 0,
                "decode_rows": 180 + self.rng.gauss(0, 8) if sampled else None,
                "trained_rows_per_second": trained,
                "mfu": mfu + self.rng.gauss(0, 0.01),
                "device_gib": memory + self.rng.gauss(0, 0.2),
                "host_gib": 6.0 + step / 200,
            }

        return {
            "play": phase(5200 + self.rng.gauss(0, 200), None, 0.12, 31),
            "learn": phase(None, 9400 + self.rng.gauss(0, 300), 0.38, 52),
        }

    def _measured(self, step: int) -> dict[str, Any]:
        growth = 1 + step / 120
        written = {name: value * growth + self.rng.gauss(0, 0.05) * value for name, value in _MEASURES.items()}
        reached = {name: 0.92 * value for name, value in written.items()}
        coverage = {
            name: {
                "tasks": 36 * step,
                "cells": int(cells * step**0.7),
                "beyond_seeds": int(cells * step**0.6),
                "rarefied": {"10": cells / 9, "100": cells * (1 - math.exp(-step / 30))},
                "rarefied_beyond_seeds": {"10": cells / 20, "100": cells * (1 - math.exp(-step / 60))},
                "rarefied_by_nodes": {"1000": cells * (1 - math.exp(-step / 45))},
            }
            for name, cells in _CELLS.items()
        }
        return {
            "complexity_by_kind": {kind: {"written": written, "reached": reached} for kind in NAMES},
            "lines_by_kind": dict.fromkeys(NAMES, written["lines"]),
            "dead_code_by_kind": dict.fromkeys(NAMES, 0.08),
            "sizes_by_kind": {kind: {"input": 3 + step / 60, "output": 2.5} for kind in NAMES},
            "coverage": coverage,
        }

    def _evaluated(self, step: int, students: Sequence[str]) -> dict[str, Any]:
        """Returns held-out scores that rise and level off, with the intervals of so many problems."""
        scores: dict[str, Any] = {}
        for number, name in enumerate(students):
            gain = (0.09 + 0.02 * number) * (1 - math.exp(-step / 40)) + self.rng.gauss(0, 0.012)
            reach = 0.045 + self.rng.random() * 0.01
            scores[name] = {"rate": 0.24 + gain, "gain": gain, "low": gain - reach, "high": gain + reach}
        return {
            "held_out": {"problems": PROBLEMS, "start": 0.24, "students": scores},
            "evals": {"reserved": {name: score["rate"] for name, score in scores.items()}},
        }


def write(folder: Path, steps: int) -> Path:
    """Writes the run into `folder` and returns it."""
    DrawnRun(folder, steps).write()
    return folder


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 150)
