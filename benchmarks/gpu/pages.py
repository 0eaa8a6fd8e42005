"""What pages of keys and values gain: rows and tokens a second of `paper_7b`, modelled with and without them.

`python -m benchmarks.gpu.pages` prints the table of docs/GPU.md. Nothing is measured, and no GPU is needed.
"""

from __future__ import annotations

import os
from unittest import mock

from benchmarks.gpu.plans import gpu, lengths, on_a_gpu, plan
from redqueen.policy.memory.forecast import CARDS, Card, forecast
from redqueen.policy.sampling.pages import VARIABLE


def row(base: str, card: Card, choice: str) -> str:
    """Returns the plan for a card and what is modelled for it, with pages (`auto`) or without (`off`)."""
    with mock.patch.dict(os.environ, {VARIABLE: choice}):
        found = plan(on_a_gpu(), base, card.memory)
        if found is None:
            return "does not fit"
        step = forecast(found.config, gpu(base), lengths(found.config), card)
    rows = found.config.sampling.batch_rows
    return f"{rows} rows, {step.solved_tokens / step.solve:,.0f} tokens/s, step {step.step:.0f} s"


def print_table(base: str = "7B") -> None:
    """Prints the table as Markdown."""
    print("| card | a room for each row | pages |")
    print("|---|---|---|")
    for card in CARDS:
        print(f"| {card.memory} GB ({card.name}) | {row(base, card, 'off')} | {row(base, card, 'auto')} |")


if __name__ == "__main__":
    print_table()
