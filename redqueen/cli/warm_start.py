"""`redqueen warm-start`: fits and writes the adapter that members start from."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import torch

from redqueen.config import Config
from redqueen.engine.adapters import WEIGHTS, save_adapter
from redqueen.engine.model.base import load
from redqueen.errors import UserError
from redqueen.method.verifier import LocalVerifier
from redqueen.method.warm_start import Warmup
from redqueen.run.recording.lines import Lines
from redqueen.run.recording.plain_console import PlainConsole, TaskReporter
from redqueen.run.session import fit, start_of_another_base
from redqueen.store.directory import check_free

RECORD = "warm_start.json"
"""The name of the file next to the adapter that says how it was made."""


def run_warm_start(
    out: Path,
    config: Config,
    args: Sequence[str],
    steps: str,
    proposals: str,
    lessons: int,
    lr: float,
    *,
    answers_alone: bool,
    answers: int,
) -> int:
    """Fits and writes the adapter; returns the exit code. `args`, which gave the config, go into the record.

    Raises UserError if `out` is not empty or a number is impossible.
    """
    # All input is checked before anything is loaded: a mistake must not show after an hour of work.
    console = PlainConsole()
    check_free(out)
    steps_by_round = _counts("--steps", steps)
    proposals_by_round = _counts("--proposals", proposals)
    if len(proposals_by_round) < len(steps_by_round) - 1 or lessons < 1 or not 0 < lr < math.inf:
        raise UserError("--proposals needs a number between each two rounds; --lessons and --lr must be positive")
    if line := start_of_another_base(config.population.init, config.model.name):
        console.print(line, markup=False, soft_wrap=True)
    config = fit(config, 1, Lines(console))
    console.print(f"loading {config.model.name} ...")
    base = load(config.model)
    history: list[dict[str, int]] = []
    with (
        LocalVerifier(config.sandbox, config.game.min_inputs, config.run.seed) as verifier,
        TaskReporter(console) as report,
        closing(Warmup(base, verifier, config, lr, report, answers_alone=answers_alone, more_answers=answers)) as warm,
    ):

        def keep() -> None:
            save_adapter(out, warm.adapter(), alpha=config.model.alpha, base=base.name, dtype=torch.bfloat16)

        for round_, count in enumerate(steps_by_round):
            # Between two rounds the model itself proposes tasks, which the next round learns from.
            if round_:
                history.append(warm.explore(round_ - 1, proposals_by_round[round_ - 1]))
            warm.fit(round_, count, lessons, keep)
        keep()
    # The record makes the adapter reproducible: the command that made it, and the checksum that a second run must give.
    digest = hashlib.sha256((out / WEIGHTS).read_bytes()).hexdigest()
    command = (
        f"redqueen warm-start OUT --steps {steps} --proposals {proposals} --lessons {lessons} --lr {lr} "
        f"{'--answers-alone ' if answers_alone else ''}{f'--answers {answers} ' if answers else ''}"
        f"{' '.join(args)}"
    ).rstrip()
    note = {"command": command, "base": base.name, "sha256": {WEIGHTS: digest}, "proposals": history}
    (out / RECORD).write_text(json.dumps(note, indent=2) + "\n")
    console.print(f"wrote {out}; start members from it with population.init={out}")
    return 0


def _counts(option: str, text: str) -> list[int]:
    """Returns the numbers of "110,90,80". Raises UserError if one is not positive and whole."""
    numbers = [number.strip() for number in text.split(",") if number.strip()]
    if not all(number.isdigit() and int(number) > 0 for number in numbers):
        raise UserError(f"{option} takes positive whole numbers with commas, not '{text}'")
    return [int(number) for number in numbers]
