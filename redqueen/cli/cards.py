"""`redqueen recipes --cards`: which recipe fits which GPU, and how long it would take, as a table in Markdown."""

from __future__ import annotations

import sys

from redqueen.config import PlaySettings
from redqueen.config.recipes import recipe
from redqueen.engine.memory.fit import Fit, fit
from redqueen.engine.memory.forecast import CARDS, Card, forecast
from redqueen.engine.memory.machine import gpu_machine
from redqueen.engine.model.dimensions import rough_token_counter
from redqueen.errors import ModelError
from redqueen.method.prompt_lengths import prompt_lengths
from redqueen.run.session import quiet_libraries

RECIPES = ("coder_0_5b", "coder_1_5b", "coder_3b", "coder_7b", "paper_7b")
"""The recipes for GPUs, the smallest base first."""


def run_cards() -> int:
    """Prints the table; returns the exit code."""
    quiet_libraries()
    sys.stdout.write(cards_table())
    return 0


def cards_table() -> str:
    """Returns a line for each recipe and a column for each of the smaller cards."""
    cards = CARDS[:-1]
    heads = [f"{card.memory} GB ({card.name})" for card in cards]
    lines = [f"| recipe | {' | '.join(heads)} |", f"|---{'|---' * len(cards)}|"]
    for name in RECIPES:
        config = recipe(name).override(["model.device=cuda", "model.dtype=bfloat16"])
        lengths = prompt_lengths(PlaySettings.of(config), rough_token_counter())
        cells: list[str] = []
        for card in cards:
            machine = gpu_machine(config.model, card.memory * 10**9)
            try:
                cells.append(_cell(fit(config, machine, lengths, config.capacity), card, config.run.steps))
            except ModelError:
                cells.append("does not fit")
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(fitted: Fit, card: Card, steps: int) -> str:
    """Returns what a run would be on a card, in a few words."""
    plan = fitted.demand
    kept = "recomputed" if plan.learning.checkpointing is True else "kept"
    limit = ", if texts stay shorter than they may" if fitted.warning else ""
    taken = forecast(plan, card).hours(steps)
    return f"{plan.sampling.batch_rows} rows, activations {kept}{limit}: {taken:.1f} h"
