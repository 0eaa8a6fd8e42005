"""The parts `run` and `cpu`: `overnight` on the bundled model's real weights, for as long as there is time.

The run is an ordinary one: two steps, and then as many more as fit. Its students' held-out scores stand beside their
start's, with intervals. `cpu` plays the first steps of the same seed on the machine's processors: their numbers should
be alike, and the texts need not be, since sums round otherwise.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
import time
from pathlib import Path

from benchmarks.gpu.clock import device_for, reserved_gb
from benchmarks.gpu.output import folder, say, seconds_left
from redqueen.api import Run
from redqueen.config.recipes import configure
from redqueen.engine.memory.estimate import items, total
from redqueen.engine.memory.fit import fit
from redqueen.engine.memory.machine import this_machine
from redqueen.engine.model.dimensions import token_counter
from redqueen.method.prompt_lengths import prompt_lengths
from redqueen.run.recording.metrics.dynamics import held_out_lines
from redqueen.run.recording.recorder import Recorder, StepRecord
from redqueen.run.session import quiet_libraries

SETTINGS = "RUN_SETTINGS"
"""The environment variable with further settings of the run, as on a command line."""

# So many steps come before it is known how long one takes: kernels are compiled in the first.
_FIRST = 2
# Of the time that is left, what further steps may take; and the seconds until a run has been opened again.
_SHARE = 0.85
_REOPENED = 10.0
# What steps of one seed have in common on any device, up to rounding.
_COMPARED = ("valid_rate", "solve_rate", "tokens_sampled", "tokens_trained", "logprob_gap")
_TINY = {
    "game.kinds": "code_o",
    "game.references": 1,
    "game.proposals": 2,
    "game.attempts": 2,
    "game.seed_tasks": 8,
    "model.workers": 1,
    "model.threads": 1,
    "sampling.proposal_tokens": 8,
    "sampling.attempt_tokens": 8,
    "evals.limit": 2,
}


class _Told(Recorder):
    """Says what each step took, as soon as it is done."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.evaluated = 0.0
        self.reserved = 0.0
        """GB, at most. A run counts its peak anew in each step."""

    def record(self, record: StepRecord) -> None:
        rounded = {phase: round(seconds, 2) for phase, seconds in record.seconds.items()}
        # What is evaluated in some steps only is no part of the others' time.
        self.evaluated = record.seconds.get("evaluate", 0.0)
        self.seconds.append(record.seconds["total"] - self.evaluated)
        say(f"step {record.step}: seconds by phase", rounded)
        tokens = sum(work.sampled_tokens for work in record.work.values())
        trained = sum(work.trained_rows for work in record.work.values())
        reserved = reserved_gb() or 0.0
        self.reserved = max(self.reserved, reserved)
        say("   tokens sampled, rows trained, GB reserved", (tokens, trained, reserved))


def part(*, tiny: bool) -> None:
    """Trains on the GPU."""
    run_real(device_for(tiny=tiny).type, tiny=tiny)


def run_real(device: str, *, tiny: bool) -> None:
    """Trains on this device, and prints the scores, the memory and the seconds."""
    quiet_libraries()
    with tempfile.TemporaryDirectory() as parent:
        path = Path(parent) / "run"
        planned = _planned(device, tiny=tiny)
        told = _Told()
        began = time.perf_counter()
        run = Run.train("overnight", _settings(device, _FIRST, tiny=tiny), path=path, recorders=[told])
        start = time.perf_counter() - began - sum(told.seconds)
        say("seconds of the start, and of held-out tasks before and after the first steps", round(start, 1))
        _report(run, told, planned)
        more = int((_SHARE * seconds_left() - _REOPENED - 2 * told.evaluated) / told.seconds[-1])
        say("further steps that fit", more)
        if more < 1:
            return
        if tiny:
            more = 1
        run.resume({"run.steps": _FIRST + min(more, 160 - _FIRST)}, recorders=[told])
        _report(run, told, planned)
        later = sorted(told.seconds[_FIRST:])
        say("seconds of a step, median of the further ones", round(later[len(later) // 2], 2))


def cpu_part(*, tiny: bool) -> None:
    """Plays the first steps on the processors, without held-out tasks."""
    quiet_libraries()
    with tempfile.TemporaryDirectory() as parent:
        # A tiny one takes two processes, as any run with more than one core does.
        settings = {**_settings("cpu", _FIRST, tiny=tiny), "evals.every": 0, "model.workers": 2 if tiny else 0}
        run = Run.train("overnight", settings, path=Path(parent) / "run", recorders=[_Told()])
        _say_steps(run)


def _settings(device: str, steps: int, *, tiny: bool) -> dict[str, object]:
    """Returns the settings of the run, the user's own among them."""
    own = dict(setting.split("=", 1) for setting in shlex.split(os.environ.get(SETTINGS, "")))
    return {**(_TINY if tiny else {}), "model.device": device, "run.steps": steps, **own}


def _planned(device: str, *, tiny: bool) -> float:
    """Returns the GB that are planned for the run."""
    settings = _settings(device, _FIRST, tiny=tiny)
    config = configure(["overnight", *(f"{key}={value}" for key, value in settings.items())])
    machine = this_machine(config.model)
    lengths = prompt_lengths(config.play_settings, token_counter(config.model))
    return round(total(items(fit(config, machine, lengths, config.capacity).demand)) / 1e9, 2)


def _report(run: Run, told: _Told, planned: float) -> None:
    """Prints what the run has reached, and keeps its metrics among the results."""
    for line in held_out_lines(run.steps()):
        say("held out", line)
    say("GB reserved at most", told.reserved, f"planned {planned}")
    _say_steps(run)
    place = folder()
    if place is not None:
        shutil.copy(run.path / "metrics.jsonl", place / "run-metrics.jsonl")


def _say_steps(run: Run) -> None:
    """Prints what can be compared with the same steps on another device."""
    for line in run.steps()[:_FIRST]:
        say(f"step {line['step']} by its numbers", {name: line.get(name) for name in _COMPARED})
