"""What fits on which GPU: the batches that `redqueen.engine.memory` plans for bases of six sizes. None is needed.

`python -m benchmarks.gpu.plans` prints the table of docs/GPU.md.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from benchmarks.gpu.planned_memory import lengths
from redqueen.config import Config
from redqueen.config.recipes import recipe
from redqueen.engine.memory.estimate import items, total
from redqueen.engine.memory.fit import Fit, fit
from redqueen.engine.memory.machine import FREE_SHARE, Machine
from redqueen.engine.model.dimensions import SIZES, Shape, shape_in, transformers_config
from redqueen.errors import ModelError

CARDS = (24, 48, 80, 141)
"""GPUs by their memory in GB."""


@cache
def shape(name: str) -> Shape:
    """Returns the dimensions of a base of Qwen2.5."""
    return shape_in(transformers_config(f"Qwen/Qwen2.5-Coder-{name}"), recipe("paper_7b").model.targets)


def on_a_gpu(*overrides: str) -> Config:
    """Returns `paper_7b` with other settings, for a GPU that need not be here."""
    return recipe("paper_7b").override(["model.device=cuda", "model.dtype=bfloat16", *overrides])


def gpu(base: str, free: float = 0) -> Machine:
    """Returns a machine whose GPU has so many free GB, and a base in bf16."""
    return Machine(
        device=torch.device("cuda"), dtype=torch.bfloat16, workers=1, shape=shape(base), free=int(free * 1e9)
    )


def plan(base: str, card: int, *overrides: str) -> Fit | None:
    """Returns how `on_a_gpu(*overrides)` is made to fit on a card of so many GB; None if it does not fit."""
    config = on_a_gpu(*overrides)
    try:
        return fit(
            config,
            gpu(base, card * FREE_SHARE),
            lengths(config.sampling.proposal_tokens),
            config.capacity,
        )
    except ModelError:
        return None


def table() -> list[dict[str, Any]]:
    """Returns a row for each base and card: the plan of `paper_7b` and what it needs, or of a smaller rank."""
    rows: list[dict[str, Any]] = []
    for base in SIZES:
        for card in CARDS:
            found = [_row(rank, base, card) for rank in (32, 16, 8)]
            fits = [row for row in found if row]
            rows.append({"base": base, "card": card, **(fits[0] if fits else {"rank": None})})
    return rows


def _row(rank: int, base: str, card: int) -> dict[str, Any]:
    """Returns the plan for one base on one card; nothing if it does not fit."""
    found = plan(base, card, f"model.rank={rank}")
    if found is None:
        return {}
    batches = found.config
    need = total(items(found.demand))
    return {
        "rank": rank,
        "rows": batches.sampling.batch_rows,
        "prefill": batches.sampling.prefill_tokens,
        "batch_tokens": batches.learning.batch_tokens,
        "recomputes": batches.learning.checkpointing,
        "needs_gb": round(need / 1e9, 1),
        "at_most": not found.warning,
    }


def _cell(row: dict[str, Any]) -> str:
    """Returns a plan in words."""
    if row["rank"] is None:
        return "does not fit"
    rank = "" if row["rank"] == 32 else f"rank {row['rank']}: "
    kept = "recomputed" if row["recomputes"] else "kept"
    limit = "" if row["at_most"] else ", if texts stay shorter than they may"
    return f"{rank}{row['rows']} rows, {row['batch_tokens']:,}, {kept}{limit} ({row['needs_gb']:.0f} GB)"


def print_table() -> None:
    """Prints the table as Markdown."""
    rows = table()
    print(f"| base | {' | '.join(f'{card} GB' for card in CARDS)} |")
    print(f"|---{'|---' * len(CARDS)}|")
    for base in SIZES:
        print(f"| {base} | {' | '.join(_cell(row) for row in rows if row['base'] == base)} |")


if __name__ == "__main__":
    print_table()
