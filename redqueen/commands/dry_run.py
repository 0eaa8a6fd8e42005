"""`redqueen train --dry-run`: the memory that a run needs, by parts."""

from __future__ import annotations

from rich.console import Console
from rich.table import Column, Table

from redqueen.config import BUNDLED, Config
from redqueen.errors import ModelError
from redqueen.game.prompt_lengths import prompt_lengths
from redqueen.plugins import PluginError
from redqueen.policy.memory.estimate import Item, host_items, items, least, total
from redqueen.policy.memory.fit import fit, memory_here, memory_of_a_gpu
from redqueen.policy.model.bundled import cached
from redqueen.policy.model.dimensions import shape_of, token_counter
from redqueen.policy.model.source import read_config
from redqueen.session import quiet_libraries
from redqueen.train import capacity


def print_memory(config: Config, size: int | None = None) -> None:
    """Prints on standard error how much memory a run would need, and if it fits: here, or on a GPU of `size` bytes.

    Of a model of the Hub only config.json and the tokenizer are fetched; nothing is converted.
    """
    quiet_libraries()
    # Standard output is for the configuration, which is JSON and may be piped into another program.
    errors = Console(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)
    if config.model.name == BUNDLED and cached() is None:
        errors.print("memory: not estimated, the bundled model is not converted yet: the first run does that")
        return
    try:
        read_config(config.model.name)
        lengths = prompt_lengths(config, token_counter(config.model))
        shape = shape_of(config.model)
        memory = memory_here(config) if size is None else memory_of_a_gpu(size)
    except (ModelError, PluginError) as error:
        errors.print(f"memory: not estimated, {error}")
        return
    count = capacity(config)
    plan = config
    where = "here" if size is None else "there"
    try:
        found = fit(config, lengths, count, memory)
    except ModelError as error:
        errors.print(str(error))
        return
    plan = found.config
    changed = f" with {' '.join(found.changes)}" if found.changes else ""
    verdict = found.warning or f"{found.free / 1e6:,.0f} MB are free {where}: it fits{changed}"
    need = items(plan, shape, lengths, count, memory.device)
    required = items(least(plan), shape, lengths, count, memory.device)
    table = Table("memory, at most", Column("processes", justify="right"), Column("MB", justify="right"), box=None)
    for item in need:
        table.add_row(*_cells(item))
    table.add_row("in all", "", f"{total(need) / 1e6:,.0f}")
    table.add_row("in all, at least (every text is short)", "", f"{total(required) / 1e6:,.0f}")
    if memory.device.type == "cuda":
        for item in host_items(plan, shape, count):
            table.add_row(*_cells(item))
    errors.print(table)
    errors.print(_batches(plan))
    errors.print(verdict)


def _cells(item: Item) -> tuple[str, str, str]:
    return item.name, str(item.processes), f"{item.total / 1e6:,.0f}"


def _batches(plan: Config) -> str:
    """Returns the sizes that a run would take, in one line."""
    recomputed = "recomputed activations" if plan.learning.checkpointing is True else "all activations kept"
    return (
        f"batches: {plan.sampling.batch_rows} rows at once, prompts in passes of {plan.sampling.prefill_tokens} "
        f"tokens, micro-batches of {plan.learning.batch_tokens} tokens with {recomputed}"
    )
